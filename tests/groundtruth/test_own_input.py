# SPDX-License-Identifier: Apache-2.0
"""Loops without a loader that gpuwatch knows: what their input waits for is told within 2 % of wall time of what they log
themselves, and what cannot be told is said."""

import json
import os
import random
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("programs") / "own_input.py"
TOLERANCE = 0.02  # of wall time
SKIPPED = 3

# kind: what the program logs -> the category that says the same, and what no such category may hold
KINDS = {
    "tokens": ("fault", "pagefault", "input.unknown"),
    "records": ("read", "input.io", "pagefault"),
    "environment": ("answer", "input.unknown", "input.io"),
}


@pytest.fixture(scope="module")
def data_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.bin"
    with path.open("wb") as data:
        data.write(random.Random(1).randbytes(48 << 20))
        os.fsync(data.fileno())  # pages that were never written cannot be dropped from memory
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_input_without_a_loader(kind, data_file, inject):
    run = inject([sys.executable, PROGRAM, kind, "--file", data_file], first=True)
    assert run.returncode == 0, run.stderr
    logged, category, other = KINDS[kind]
    own = json.loads(run.stdout)
    report = run.report()
    steps = report["ranks"][0]["steps"]
    assert steps["count"] == len(own)
    warm_up = steps["count"] - steps["recorded"]
    first = max(SKIPPED, warm_up)
    rank = run.report("--steps", f"{first - warm_up}:{len(own) - warm_up}")["ranks"][0]
    wall = own[-1]["end"] - own[first]["begin"]
    expected = sum(step[logged] for step in own[first:]) / wall
    found = {row["category"]: row["ns"] / wall for row in rank["attribution"]}
    assert rank["wall_ns"] == pytest.approx(wall, rel=0.005)
    if kind == "tokens" and expected < 2 * TOLERANCE:
        pytest.skip("the file's pages came from memory: there was nothing to wait for")
    assert found.get(category, 0) == pytest.approx(expected, abs=TOLERANCE), found
    assert found.get(other, 0) < TOLERANCE, found
    assert expected > 2 * TOLERANCE  # else there was nothing to tell
    assert any("no dataloader seen" in limit.lower() for limit in report["limits"])
