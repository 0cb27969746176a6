# SPDX-License-Identifier: Apache-2.0
"""Ranks that exchange gradients over gloo, of which one is late: what each rank logged of its own steps against the report.
The times compared are sums over all steps of one run, on the clock of that run."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs")
RATHER = 0.06  # of a step: what scheduling of more threads than cores moves between two phases


@dataclass
class Ranks:
    """A run, and what its ranks logged: rows of asked, got, ready, exchanged, done, in ns."""

    report: dict
    text: str
    logs: list

    def rank(self, number):
        (found,) = (rank for rank in self.report["ranks"] if rank["rank"] == number)
        return found

    def share(self, number, prefix):
        rank = self.rank(number)
        return sum(row["ns"] for row in rank["attribution"] if row["category"].startswith(prefix)) / rank["wall_ns"]

    def logged(self, number, ns_of):
        """Mean over the recorded steps, as a share of them; the report leaves warm-up out."""
        steps = self.rank(number)["steps"]
        rows = range(steps["count"] - steps["recorded"], steps["count"])
        wall = sum(self.logs[number][i][4] - self.logs[number][i][0] for i in rows)
        return sum(ns_of(i) for i in rows) / wall

    def waiting(self, number):
        """From when this rank was ready for the exchange until the last one was."""
        return self.logged(number, lambda i: max(log[i][2] for log in self.logs) - self.logs[number][i][2])

    def exchange(self, number):
        """From when this rank was ready until the exchange was over: waiting, and the exchange itself."""
        return self.logged(number, lambda i: self.logs[number][i][3] - self.logs[number][i][2])

    def is_communication(self, number):
        return self.waiting(number) - RATHER <= self.share(number, "comm.") <= self.exchange(number) + RATHER

    @property
    def late(self):
        (group,) = self.report["rank_groups"]
        return group["straggler"]


@pytest.fixture
def train(inject, tmp_path):
    def run(*options, ranks=2):
        log = tmp_path / "log"
        log.mkdir()
        done = inject([sys.executable, PROGRAMS / "ranks.py", "--log", log, "--ranks", ranks, *options], first=True)
        assert done.returncode == 0, done.stderr
        logs = [json.loads((log / f"{rank}.json").read_text()) for rank in range(ranks)]
        return Ranks(done.report(), done.analyze().stdout, logs)

    return run


def test_the_late_ranks_data_is_the_finding(train):
    run = train("--late", "data")
    assert run.is_communication(0)
    assert run.share(1, "input.") == pytest.approx(run.logged(1, lambda i: run.logs[1][i][1] - run.logs[1][i][0]), abs=RATHER)
    assert run.waiting(0) > 0.1  # else there was nothing to see
    assert (run.late["rank"], run.late["by"]) == (1, "data loading")
    assert run.report["verdict"]["id"] == "input-bound"
    assert "on rank 1; rank 0 waits for it" in run.report["verdict"]["sentence"]
    first = run.report["findings"][0]
    assert (first["id"], first["ranks"]) == ("dataloader-workers", [1])
    predicted = first["prediction"]
    assert predicted["expected"] / predicted["now"] >= 1 - run.waiting(0) - RATHER  # the next rank's own work stays
    assert run.report["no_gain"]["on"] in (None, "rank 1")
    assert "rank 0: more" not in run.text


@pytest.mark.parametrize("sync", ["all_reduce", "async", "barrier"])
def test_exchanges_that_the_script_makes_itself(sync, train):
    run = train("--late", "data", "--sync", sync, "--told", "arguments")
    assert run.share(0, "comm.") == pytest.approx(run.exchange(0), abs=RATHER)
    assert (run.late["rank"], run.late["by"]) == (1, "data loading")


@pytest.mark.parametrize(("late", "by"), [("compute", "compute"), ("gc", "host work"), ("checkpoint", "host work")])
def test_what_holds_a_rank_up(late, by, train):
    run = train("--late", late, "--late-rank", 0)
    assert run.is_communication(1)
    assert (run.late["rank"], run.late["by"]) == (0, by)
    assert "on rank 0; rank 1 waits for it" in run.report["verdict"]["sentence"]


def test_three_ranks(train):
    # With 30 ms a sample, the batch is there before three ranks' computing on two cores is over.
    run = train("--late", "data", "--late-rank", 2, "--sample-ms", 60, ranks=3)
    assert run.waiting(0) > 0.1
    assert (run.late["rank"], run.late["by"]) == (2, "data loading")
    assert "on rank 2; the other 2 ranks wait for it" in run.report["verdict"]["sentence"]
