# SPDX-License-Identifier: Apache-2.0
"""A report in the formats of other tools, each written by the library of its field. The files are their owner's (mode 0600)."""

from gpuwatch.export.openmetrics import openmetrics, write_openmetrics
from gpuwatch.export.parquet import write_parquet
from gpuwatch.export.tensorboard import write_tensorboard

__all__ = ["openmetrics", "write_openmetrics", "write_parquet", "write_tensorboard"]
