# SPDX-License-Identifier: Apache-2.0
"""Which tables a report has: the rows and columns of each, taken from the JSON as they are.

A column has the name of its field, with the names of the objects around it: prediction.speedup.low is
prediction_speedup_low. All tables of a rank begin with `row`, the place in report["ranks"], because a process with
several GPUs has a row for each, of the same rank.
"""

from collections import namedtuple

Column = namedtuple("Column", "name path kind")
Table = namedtuple("Table", "rows columns")

INT, FLOAT, BOOL, TEXT, INTS, TEXTS = "int", "float", "bool", "text", "ints", "texts"


def columns(kind, *fields):
    return [Column(field.replace(".", "_"), tuple(field.split(".")), kind) for field in fields]


OF_RANK = columns(INT, "row", "rank")


def ranks(report):
    for row, rank in enumerate(report["ranks"]):
        yield {**rank, "row": row}


def of_each_rank(list_of):
    """The rows of one list that each rank has."""

    def rows(report):
        for rank in ranks(report):
            for entry in list_of(rank):
                yield {**entry, "row": rank["row"], "rank": rank["rank"]}

    return rows


def device_work(name):
    return of_each_rank(lambda rank: (rank["device_work"] or {}).get(name) or [])


def findings(report):
    for place, finding in enumerate(report["findings"], 1):
        yield {**finding, "place": place}


def evidence(report):
    for finding in findings(report):
        for fact in finding["evidence"]:
            yield {**fact, "place": finding["place"], "id": finding["id"]}


def prediction(name):
    numbers = ("now", "low", "expected", "high", "speedup.low", "speedup.expected", "speedup.high")
    return [*columns(TEXT, f"{name}.metric"), *columns(FLOAT, *(f"{name}.{number}" for number in numbers)), *columns(TEXTS, f"{name}.assumptions")]


TABLES = {
    "ranks": Table(ranks, [
        *OF_RANK, *columns(TEXT, "host"), *columns(INT, "pid"), *columns(TEXT, "device", "framework"),
        *columns(INT, "steps.count", "steps.recorded"), *columns(FLOAT, "steps.mean_ms", "steps.p50_ms", "steps.p95_ms"),
        *columns(FLOAT, "steps.samples_per_step", "steps.samples_per_s"), *columns(TEXT, "steps.source"), *columns(INT, "wall_ns"),
    ]),
    "causes": Table(of_each_rank(lambda rank: rank["attribution"]), [
        *OF_RANK, *columns(TEXT, "category"), *columns(INT, "ns"), *columns(FLOAT, "seconds", "share"),
    ]),
    "findings": Table(findings, [
        *columns(INT, "place"), *columns(TEXT, "id", "severity", "title"), *columns(INTS, "ranks"), *columns(FLOAT, "lost_share"),
        *columns(TEXT, "fix.summary", "fix.setting", "fix.value", "fix.location", "fix.snippet"), *prediction("prediction"),
        *prediction("alone"), *columns(BOOL, "alternative", "conditional"), *columns(TEXT, "bottleneck"), *columns(TEXTS, "explains"),
        *columns(FLOAT, "ceiling.speedup"),
    ]),
    "evidence": Table(evidence, [*columns(INT, "place"), *columns(TEXT, "id", "what"), *columns(FLOAT, "value"), *columns(TEXT, "unit")]),
    "loaders": Table(of_each_rank(lambda rank: rank["loaders"]), [
        *OF_RANK, *columns(TEXT, "class", "framework", "dataset"), *columns(INT, "num_workers", "batch_size"), *columns(BOOL, "pin_memory"),
        *columns(INT, "prefetch_factor"), *columns(BOOL, "persistent_workers"), *columns(INT, "iterators", "batches"),
        *columns(FLOAT, "wait_s", "fetch_ms_mean"), *columns(TEXT, "location"),
    ]),
    "kernels": Table(device_work("kernels"), [
        *OF_RANK, *columns(TEXT, "name", "class"), *columns(INT, "ns"), *columns(FLOAT, "share"), *columns(INT, "count"),
    ]),
    "kernel_classes": Table(device_work("kernel_classes"), [
        *OF_RANK, *columns(TEXT, "class"), *columns(INT, "ns", "alone_ns"), *columns(FLOAT, "share"), *columns(INT, "count"),
    ]),
    "phases": Table(of_each_rank(lambda rank: rank["phases"]), [
        *OF_RANK, *columns(TEXT, "kind"), *columns(INT, "count"), *columns(FLOAT, "seconds"),
    ]),
}  # fmt: skip


def value(row, path):
    for name in path:
        row = row.get(name) if row is not None else None
    return row


def columns_of(report, name):
    """[(column, its values)] of a table."""
    table = TABLES[name]
    rows = list(table.rows(report))
    return [(column, [value(row, column.path) for row in rows]) for column in table.columns]
