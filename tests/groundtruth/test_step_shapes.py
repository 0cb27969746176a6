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
    starts = sorted(k["start"] for k in kernels)
    bounds_ms = [starts[step * len(starts) // expected] / 1e6 for step in range(expected)]
    bounds_ms.append(max(k["end"] for k in kernels) / 1e6)
    count = steps["count"]
    assert count * steps["mean_ms"] <= (bounds_ms[-1] - bounds_ms[0]) * 1.05
    if expected >= 100:
        # Which steps at the ends were not seen is open; on a busy machine one of them may be as long as 30 others.
        means = [(bounds_ms[first + count] - bounds_ms[first]) / count for first in range(expected - count + 1)]
        assert any(steps["mean_ms"] == pytest.approx(mean, rel=0.1) for mean in means), (steps, means)
