# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch loaders whose datasets log what they do: each part of `input.*` within 2 % of wall time of what an oracle
makes of the logs of the very same run."""

import os
import random
import sys
from pathlib import Path

import pytest
from input_oracle import InputOracle, merged

PROGRAM = Path(__file__).with_name("programs") / "logged_loader.py"
TOLERANCE = 0.02  # of wall time, for each category
DISTURBED = 0.03  # of wall time, in a job that sleeps instead of computing
SKIPPED = 2  # steps at the begin: what starts the workers is another question

SLOW = ["--read", "slow"]
CONFIGURATIONS = {
    "inline": ["--workers", 0, *SLOW],
    "inline-iterable": ["--workers", 0, "--iterable", *SLOW],
    "one-worker": ["--workers", 1, *SLOW],
    "two-workers-prefetch-1": ["--workers", 2, "--prefetch", 1, *SLOW],
    "two-workers": ["--workers", 2, *SLOW, "--batches", 60],
    "four-workers": ["--workers", 4, *SLOW, "--read-ms", 40, "--transform-ms", 30, "--batches", 80],
    "iterable": ["--workers", 2, "--iterable", *SLOW, "--batches", 60],
    "uneven": ["--workers", 4, *SLOW, "--spread", 1.2, "--read-ms", 30, "--batches", 80],
    "any-order": ["--workers", 2, "--any-order", *SLOW, "--spread", 0.8, "--batches", 60],
    "epochs": ["--workers", 2, *SLOW, "--epochs", 4, "--batches", 15],
    "epochs-persistent": ["--workers", 2, "--persistent", *SLOW, "--epochs", 4, "--batches", 15],
    "early-break": ["--workers", 2, *SLOW, "--epochs", 4, "--stop-after", 8],
    "two-loaders": ["--workers", 1, "--loaders", 2, *SLOW],
    "pickled": ["--workers", 1, *SLOW, "--payload-kib", 30_000, "--batches", 25],
    "cpu-bound": ["--workers", 1, "--cpu", "--transform-ms", 20, "--think-ms", 5],
    "starved": ["--workers", 4, "--cpu", "--transform-ms", 60, "--think-ms", 5, "--batches", 100, "--batch", 40],
    "small-reads": ["--workers", 1, "--read", "small", "--small-reads", 150],
    "inline-small-reads": ["--workers", 0, "--read", "small", "--small-reads", 150],
    "memory-map": ["--workers", 1, "--read", "map", "--map-pages", 40],
    "inline-memory-map": ["--workers", 0, "--read", "map", "--map-pages", 40],
}


@pytest.fixture(scope="module")
def data_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.bin"
    with path.open("wb") as data:
        data.write(random.Random(1).randbytes(32 << 20))
        os.fsync(data.fileno())  # pages that were never written cannot be dropped from memory
    return path


class Split:
    """One run: gpuwatch's split and the oracle's, over the same steps."""

    def __init__(self, inject, options, folder, data_file):
        logs = folder / "logs"
        logs.mkdir(parents=True)
        command = [sys.executable, PROGRAM, "--log", logs, "--file", data_file, *options]
        self.run = inject(command, env={"GPUWATCH_OUT": folder / "run"}, first=True)
        assert self.run.returncode == 0, self.run.stderr
        self.oracle = InputOracle(
            logs,
            in_order="--any-order" not in options,
            reads_maps="map" in options,
        )
        steps = self.run.report()["ranks"][0]["steps"]
        assert steps["count"] == len(self.oracle.steps)
        warm_up = steps["count"] - steps["recorded"]  # left out of the report, and only at the begin
        first, last = max(SKIPPED, warm_up), steps["count"]
        self.rank = self.run.report("--steps", f"{first - warm_up}:{last - warm_up}")["ranks"][0]
        expected, self.wall = self.oracle.attribute(first, last)
        self.works_on_cpu = "--cpu" in options
        if self.works_on_cpu:  # asleep, a thread is delayed within a call
            expected["sched"] = self.oracle.starved_training_ns(first, last)
        merge_idle = not self.oracle.knows_sent
        self.expected = merged(expected, merge_idle)
        self.found = merged({row["category"]: row["ns"] for row in self.rank["attribution"]}, merge_idle)
        self.found["input.transform"] += self.found.pop("input.wait", 0)  # the programs' transforms sleep

    def is_disturbed(self):
        """Others took the CPU: how much of a delay fell into sleeps and reads is told to nobody."""
        return not self.works_on_cpu and self.expected["input.cpu_starved"] > DISTURBED * self.wall

    def off(self):
        """{category: what the two say} where they differ by more than is allowed."""
        named = ("input.", "handover", "phase", "gil", "pagefault", "sched" if self.works_on_cpu else "phase")
        names = {name for name in (*self.expected, *self.found) if name.startswith(named)}
        return {
            name: f"{self.found[name] / self.wall:.2%}, oracle {self.expected[name] / self.wall:.2%}"
            for name in sorted(names)
            if abs(self.found[name] - self.expected[name]) > TOLERANCE * self.wall
        }


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_split_agrees_with_what_the_dataset_logged(name, inject, tmp_path, data_file):
    split = Split(inject, CONFIGURATIONS[name], tmp_path / "once", data_file)
    if split.off() and split.is_disturbed():
        split = Split(inject, CONFIGURATIONS[name], tmp_path / "again", data_file)
    print(name, {k: f"{split.found[k] / split.wall:.2%} {split.expected[k] / split.wall:.2%}" for k in sorted({*split.found, *split.expected})})
    assert split.rank["wall_ns"] == pytest.approx(split.wall, rel=0.005)
    assert not split.off()
