# SPDX-License-Identifier: Apache-2.0
"""The report of one analysis: what `gpuwatch analyze --json` says, with its tables."""

import os

from gpuwatch import frames, notebook
from gpuwatch.errors import Error
from gpuwatch.program import report_of
from gpuwatch.steps import step_columns
from gpuwatch.tables import TABLES, columns_of

STEPS = "steps"


def read(traces=(), program=None, step_times=False):
    """The report on a run directory, a trace file, traces of torch.profiler, or a list of them; without any, on the newest run here.

    program: the command gpuwatch, if not the one of this wheel. step_times: also the single steps, for steps().
    """
    if isinstance(traces, (str, os.PathLike)):
        traces = [traces]
    return Report(report_of(traces, program, step_times))


class Report:
    """`json` is the report as it is (schema gpuwatch.report.v1). Tables are pandas DataFrames, or Arrow by to_arrow()."""

    def __init__(self, json):
        self.json = json

    @property
    def verdict(self):
        """{"id": ..., "sentence": ..., "ceiling_speedup": ...}"""
        return self.json["verdict"]

    @property
    def limits(self):
        """A sentence for each thing that could not be seen or concluded."""
        return self.json["limits"]

    @property
    def tables(self):
        """The names of the tables that this report has."""
        return [*TABLES, *([STEPS] if any("step_times" in rank for rank in self.json["ranks"]) else [])]

    def _columns(self, name):
        if name == STEPS:
            return step_columns(self.json)
        if name not in TABLES:
            raise Error(f"a report has no table {name!r}, but {', '.join([*TABLES, STEPS])}")
        return columns_of(self.json, name)

    def rows(self, name):
        """A table as a list of dicts, which needs no package."""
        columns = self._columns(name)
        names = [column.name for column, _ in columns]
        return [dict(zip(names, row)) for row in zip(*(values for _, values in columns))]

    def to_arrow(self, name):
        """A table as a pyarrow.Table."""
        return frames.arrow_table(self._columns(name))

    def to_pandas(self, name):
        """A table as a pandas.DataFrame."""
        return frames.data_frame(self._columns(name))

    def ranks(self):
        """A row for each rank (for each GPU of a process): host, device, step times."""
        return self.to_pandas("ranks")

    def causes(self):
        """Where the time of the recorded steps went, by rank and category; the ns of a rank sum to its wall_ns."""
        return self.to_pandas("causes")

    def findings(self):
        """What to change, the largest predicted gain first."""
        return self.to_pandas("findings")

    def evidence(self):
        """The measurements behind the findings."""
        return self.to_pandas("evidence")

    def loaders(self):
        """The data loaders of each rank and their settings."""
        return self.to_pandas("loaders")

    def kernels(self):
        """The kernels that took most of the GPU's time."""
        return self.to_pandas("kernels")

    def kernel_classes(self):
        """What kind of work the GPU did."""
        return self.to_pandas("kernel_classes")

    def phases(self):
        """Start-up, evaluations, checkpoints, epoch changes."""
        return self.to_pandas("phases")

    def steps(self):
        """Each recorded step with its causes; needs read(..., step_times=True)."""
        return self.to_pandas(STEPS)

    def __repr__(self):
        return notebook.text(self.json)

    def _repr_html_(self):
        return notebook.html(self.json)
