# SPDX-License-Identifier: Apache-2.0
"""Each table of a report as a Parquet file, by pyarrow."""

import os

from gpuwatch.errors import needed
from gpuwatch.export.private_file import private_file, private_folder


def write_parquet(report, folder):
    """Writes <table>.parquet for each table into the folder, which is made if it does not exist; returns their paths."""
    parquet = needed("pyarrow.parquet", "export")
    private_folder(folder, may_exist=True)
    written = []
    for name in report.tables:
        path = os.path.join(os.fspath(folder), f"{name}.parquet")
        with private_file(path) as file:
            parquet.write_table(report.to_arrow(name), file)
        written.append(path)
    return written
