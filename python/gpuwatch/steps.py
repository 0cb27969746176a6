# SPDX-License-Identifier: Apache-2.0
"""The table of single steps, which the JSON has in columns and only if `--step-times` asked for it."""

from gpuwatch.errors import Error
from gpuwatch.tables import INT, OF_RANK, Column, columns, ranks

NUMBERS = columns(INT, "step", "start_unix_ns", "begin_ns", "length_ns")


def steps_of(report):
    """[(rank, its step_times)], the rank with its row."""
    if any("step_times" not in rank for rank in report["ranks"]):
        raise Error("this report has no single steps; read the trace with step_times=True")
    return [(rank, rank["step_times"]) for rank in ranks(report)]


def step_columns(report):
    """[(column, its values)]: a row for each recorded step, a column for each cause that occurs in any rank."""
    steps = steps_of(report)
    categories = list(dict.fromkeys(category for _, times in steps for category in times["attribution_ns"]))
    fixed = [*OF_RANK, *NUMBERS]
    found = {name: [] for name in [*(column.name for column in fixed), *categories]}
    for rank, times in steps:
        count = len(times["length_ns"])
        found["row"] += [rank["row"]] * count
        found["rank"] += [rank["rank"]] * count
        found["step"] += range(times["first_step"], times["first_step"] + count)
        found["start_unix_ns"] += [times["start_unix_ns"]] * count
        found["begin_ns"] += times["begin_ns"]
        found["length_ns"] += times["length_ns"]
        for category in categories:
            found[category] += times["attribution_ns"].get(category, [0] * count)
    return [*((column, found[column.name]) for column in fixed), *((Column(f"{name}_ns", (), INT), found[name]) for name in categories)]
