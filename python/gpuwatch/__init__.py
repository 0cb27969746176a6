# SPDX-License-Identifier: Apache-2.0
"""The report of a recorded training run, for notebooks and programs.

import gpuwatch
r = gpuwatch.read("gpuwatch-train.py-20261126-130434-2059")
r                 # verdict, causes, findings
r.causes()        # a pandas DataFrame; r.to_arrow("causes") a pyarrow.Table
r.json            # all of it, as `gpuwatch analyze --json` prints it
"""

import sys

# The command in the same wheel needs no Python at all, so the wheel installs on older ones.
if sys.version_info < (3, 8):  # noqa: UP036, ruff knows the rest of the project only
    raise ImportError("`import gpuwatch` needs Python 3.8 or newer; the command gpuwatch works with this one too")

from gpuwatch.errors import Error, MissingPackage, ProgramNotFound, TraceError, UnknownSchema
from gpuwatch.report import Report, read

__all__ = ["Error", "MissingPackage", "ProgramNotFound", "Report", "TraceError", "UnknownSchema", "read"]
