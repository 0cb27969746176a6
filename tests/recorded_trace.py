# SPDX-License-Identifier: Apache-2.0
"""Traces of tests/recorded, for tests that analyze a run on a real GPU."""

import lzma
from pathlib import Path

RECORDED = Path(__file__).resolve().parent / "recorded/h200"


def unpack(name, folder):
    """Makes `folder` the run directory of a recording, and returns it."""
    folder.mkdir(exist_ok=True)
    (folder / "vm.0.gwt").write_bytes(lzma.decompress((RECORDED / f"{name}.gwt.xz").read_bytes()))
    return folder
