# SPDX-License-Identifier: Apache-2.0
"""Loops that nothing but their launches tells, on the simulated device: how many steps the program took, and how long the
device says that they were. Wall times are compared with the timeline that the same run logged."""

import json

import pytest

# arguments -> steps that the program takes
SHAPES = {
    "--graph --steps 200": 200,
    "--graph --steps 400 --eager 3 --sync-every 10": 397,
    "--graph --micro 4 --steps 100 --sync-every 1": 100,
    "--kernels 1 --steps 200 --sync-every 1": 200,
    "--kernels 3 --steps 200 --sync-every 1": 200,
    "--kernels 10000 --steps 8 --sync-every 1": 8,
    "--micro 4 --steps 100": 100,
    "--steps 6 --sync-every 1": 6,
}
NOT_SEEN = 3  # the first may hold set-up, one is cut at each end of the loop


@pytest.mark.parametrize("arguments", SHAPES)
def test_steps_are_the_programs(arguments, workloads, inject, tmp_path):
    truth = tmp_path / "truth.jsonl"
    run = inject([workloads / "step_shapes", *arguments.split()], env={"GWSIM_TRUTH": truth}, sim=True, first=True)
    assert run.returncode == 0, run.stderr
    steps = run.report()["ranks"][0]["steps"]
    expected = SHAPES[arguments]
    assert expected - NOT_SEEN <= steps["count"] <= expected, steps
    lines = [json.loads(line) for line in truth.read_text().splitlines()]
    kernels = [line for line in lines if line.get("kind") == "kernel"]
    whole_ms = (max(k["end"] for k in kernels) - min(k["start"] for k in kernels)) / 1e6
    assert steps["count"] * steps["mean_ms"] <= whole_ms * 1.05
    if expected >= 100:
        assert steps["mean_ms"] == pytest.approx(whole_ms / expected, rel=0.1)
