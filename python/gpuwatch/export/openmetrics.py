# SPDX-License-Identifier: Apache-2.0
"""A report as OpenMetrics text, by prometheus_client: gauges of one run that has ended or is being recorded.

Labels are bounded: rank and row, ids of causes, findings and verdicts. No name from a trace is one. A trace does not have
the UUID of its GPU; where the caller knows it, it becomes the label UUID, by which DCGM's exporter names GPUs."""

import os
from collections import Counter

from gpuwatch.errors import Error, needed
from gpuwatch.export.private_file import private_file

MS = 1e-3  # metrics are in seconds, as Prometheus wants them


def step_metrics(rank):
    """(name, words, labels, value)"""
    steps = rank["steps"]
    yield "gpuwatch_steps", "Training steps seen", {}, steps["count"]
    yield "gpuwatch_recorded_steps", "Training steps recorded in detail", {}, steps["recorded"]
    for statistic in ("mean", "p50", "p95"):
        yield "gpuwatch_step_seconds", "Length of a step", {"statistic": statistic}, steps[f"{statistic}_ms"] * MS
    if steps["samples_per_s"] is not None:
        yield "gpuwatch_samples_per_second", "Training throughput", {}, steps["samples_per_s"]
    for cause in rank["attribution"]:
        category = {"category": cause["category"]}
        yield "gpuwatch_cause_seconds", "Time of the recorded steps that has this cause", category, cause["seconds"]
        yield "gpuwatch_cause_ratio", "Share of the recorded steps' time that has this cause", category, cause["share"]


def finding_metrics(place, finding):
    labels = {"place": str(place), "finding": finding["id"]}
    severity = {"severity": finding["severity"]}
    yield "gpuwatch_finding_lost_ratio", "Share of the step that the finding is about", {**labels, **severity}, finding["lost_share"]
    if finding["prediction"]:
        for bound, speedup in finding["prediction"]["speedup"].items():
            yield "gpuwatch_finding_speedup", "Predicted speedup of the fix", {**labels, "bound": bound}, speedup


def run_metrics(report):
    yield "gpuwatch_verdict", "What limits the job", {"verdict": report["verdict"]["id"]}, 1
    yield "gpuwatch_dropped_records", "Records that could not be kept", {}, report["trace"]["lost_events"]
    yield "gpuwatch_recorded_ratio", "Share of the steps that was recorded in detail", {}, report["trace"]["recorded_share"]
    if report["overhead"]["estimated_share"] is not None:
        yield "gpuwatch_overhead_ratio", "Share of the time that recording cost, estimated", {}, report["overhead"]["estimated_share"]


def all_metrics(report, uuids):
    yield from run_metrics(report)
    for row, rank in enumerate(report["ranks"]):
        of_rank = {"rank": str(rank["rank"]), "row": str(row), **({"UUID": uuids[rank["rank"]]} if rank["rank"] in uuids else {})}
        for name, words, labels, value in step_metrics(rank):
            yield name, words, {**of_rank, **labels}, value
    for place, finding in enumerate(report["findings"], 1):
        yield from finding_metrics(place, finding)


class Collected:
    """The metrics as prometheus_client's registry asks for them."""

    def __init__(self, report, uuids):
        core = needed("prometheus_client.core", "export")
        self.families = {}
        for name, words, labels, value in all_metrics(report, uuids):
            if name not in self.families:
                self.families[name] = core.GaugeMetricFamily(name, words)
            self.families[name].add_sample(name, labels, value)

    def collect(self):
        return self.families.values()


def check_ranks(report, uuids):
    rows = Counter(rank["rank"] for rank in report["ranks"])
    for rank in uuids:
        if rows[rank] != 1:
            have = "has several GPUs" if rows[rank] else f"does not exist; the report has {', '.join(map(str, sorted(rows))) or 'no ranks'}"
            raise Error(f"UUID of rank {rank}: that rank {have}")


def openmetrics(report, uuids=None):
    """The text. uuids: {rank: UUID of its GPU}, as `nvidia-smi --query-gpu=uuid` prints it."""
    exposition = needed("prometheus_client.openmetrics.exposition", "export")
    check_ranks(report.json, uuids or {})
    return exposition.generate_latest(Collected(report.json, uuids or {})).decode()


def write_openmetrics(report, path, uuids=None):
    with private_file(path) as file:
        file.write(openmetrics(report, uuids).encode())
    return [os.fspath(path)]
