# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training on the simulated device under gpuwatch: where its time went, by the device's own log and the program's.

The oracle is that of tests/groundtruth. What the host did while the device was idle it knows here only in part: when the script waited
for a batch, and which calls into CUDA it made; PyTorch's own time between the launches is one remainder for both. It knows no waits for
Python's lock, which the loader's pin thread takes from a `.item()`: after a synchronisation it counts them as `sync`.
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
NAMED = ("compute", "copy.h2d", "copy.d2h", "copy.staging", "sync", "alloc", "launch.api")
COMMUNICATION = ("comm.transfer", "comm.wait_peer", "comm.unsplit")


def grouped(totals, wall):
    shares = {category: totals.get(category, 0) / wall for category in NAMED}
    shares["communication"] = sum(totals.get(category, 0) for category in COMMUNICATION) / wall
    shares["input"] = sum(ns for category, ns in totals.items() if category.startswith("input.")) / wall
    shares["other host work"] = 1 - sum(shares.values())
    return shares


def as_oracle_sees(found, gil, expected):
    """`found` with as much waiting for Python's lock in `sync` as the oracle may have there."""
    moved = min(gil, max(0, expected["sync"] - found["sync"]))
    return found | {"sync": found["sync"] + moved, "other host work": found["other host work"] - moved}


def attributed(torch_cuda, sim_lib, inject, tmp_path, kind):
    """(found, expected) shares of a training of this kind."""
    truth, phases = tmp_path / "truth.jsonl", tmp_path / "phases.jsonl"
    environment = {"GWSIM_TRUTH": truth, "GWSIM_PHASES": phases, **device_environment(sim_lib, "a100")}
    run = inject([torch_cuda, PROGRAMS / "logged_training.py", kind, STEPS], env=environment, sim=True, first=True, timeout=600)
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
    wall = rank["wall_ns"]
    return as_oracle_sees(grouped(totals, wall), totals.get("gil", 0) / wall, expected), expected


@pytest.mark.parametrize("kind", ["mlp", "transformer", "convnet", "recurrent", "spectral", "whitening", "jiterator"])
def test_attribution_agrees_with_oracle(kind, torch_cuda, sim_lib, inject, tmp_path):
    found, expected = attributed(torch_cuda, sim_lib, inject, tmp_path, kind)
    assert found == pytest.approx(expected, abs=TOLERANCE)


def test_communication_agrees_with_oracle(torch_cuda, sim_lib, inject, tmp_path):
    """DistributedDataParallel: what the device was busy with. What the host did meanwhile is the test above."""
    found, expected = attributed(torch_cuda, sim_lib, inject, tmp_path, "ddp")
    busy = ("compute", "communication", "copy.h2d", "copy.d2h")
    assert {what: found[what] for what in busy} == pytest.approx({what: expected[what] for what in busy}, abs=TOLERANCE)
    assert found["communication"] > 0
