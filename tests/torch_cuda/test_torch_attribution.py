# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training on the simulated device under gpuwatch: where its time went, by the device's own log and the program's.

The oracle is that of tests/groundtruth. What the host did while the device was idle it knows here only in part: when the script waited
for a batch, and which calls into CUDA it made; PyTorch's own time between the launches is one remainder for both.
"""

import sys
from pathlib import Path

import pytest
from torch_case import PROGRAMS, device_environment

sys.path.insert(0, str(Path(__file__).parents[1] / "groundtruth"))
from oracle import Oracle  # noqa: E402

STEPS = 120  # 1.5 s: what a busy machine holds up once is little of it
SKIPPED = 5  # at both ends: first steps wait for the loader to fill, the last one for the device to drain
WARM_UP = 1  # step that the report leaves out by itself
TOLERANCE = 0.01  # of wall time
DEVICE = ("compute", "copy.h2d", "copy.d2h", "sync")
COMMUNICATION = ("comm.transfer", "comm.wait_peer", "comm.unsplit")


def grouped(totals, wall):
    shares = {category: totals.get(category, 0) / wall for category in DEVICE}
    shares["communication"] = sum(totals.get(category, 0) for category in COMMUNICATION) / wall
    shares["input"] = sum(ns for category, ns in totals.items() if category.startswith("input.")) / wall
    shares["other host work"] = 1 - sum(shares.values())
    return shares


def attributed(torch_cuda, sim_lib, inject, tmp_path, *arguments):
    """(found, expected) shares of a run of mlp.py."""
    truth, phases = tmp_path / "truth.jsonl", tmp_path / "phases.jsonl"
    environment = {"GWSIM_TRUTH": truth, "GWSIM_PHASES": phases, **device_environment(sim_lib, "a100")}
    run = inject([torch_cuda, PROGRAMS / "mlp.py", STEPS, *arguments], env=environment, sim=True, first=True, timeout=600)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "".join(f"{step} 0.0\n" for step in range(0, STEPS, 5))

    report = run.report("--steps", f"{SKIPPED - WARM_UP}:{STEPS - SKIPPED - WARM_UP}")
    rank = report["ranks"][0]
    assert rank["steps"]["count"] == STEPS
    assert report["coverage"]["launches_matched_share"] == 1.0
    assert report["trace"]["lost_events"] == 0
    oracle = Oracle(truth, phases, skip_first=SKIPPED, skip_last=SKIPPED)
    expected = grouped(*oracle.attribute())
    totals = {row["category"]: row["ns"] for row in rank["attribution"]}
    found = grouped(totals, rank["wall_ns"])
    # Between a batch and the script's look at the clock its thread may lose Python's lock to the loader's pin thread: a wait
    # for the lock to gpuwatch, for the batch to the script.
    within = min(max(expected["input"] - found["input"], 0), totals.get("gil", 0) / rank["wall_ns"])
    found["input"] += within
    found["other host work"] -= within
    return found, expected


def test_attribution_agrees_with_oracle(torch_cuda, sim_lib, inject, tmp_path):
    found, expected = attributed(torch_cuda, sim_lib, inject, tmp_path)
    assert found == pytest.approx(expected, abs=TOLERANCE)


def test_communication_agrees_with_oracle(torch_cuda, sim_lib, inject, tmp_path):
    """DistributedDataParallel: what the device was busy with. What the host did meanwhile is the test above."""
    found, expected = attributed(torch_cuda, sim_lib, inject, tmp_path, "ddp")
    busy = ("compute", "communication", "copy.h2d", "copy.d2h")
    assert {what: found[what] for what in busy} == pytest.approx({what: expected[what] for what in busy}, abs=TOLERANCE)
    assert found["communication"] > 0
