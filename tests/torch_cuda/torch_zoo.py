# SPDX-License-Identifier: Apache-2.0
"""Rows of the zoo (tests/zoo/zoo_case.py) on the CUDA build of PyTorch on the simulated device."""

import sys
from pathlib import Path

import pytest
from torch_case import PROGRAMS, device_environment

sys.path.insert(0, str(Path(__file__).parents[1] / "zoo"))
import zoo_case  # noqa: E402
from zoo_case import Case, below_ceiling, check_healthy  # noqa: E402, F401


class TorchZoo(zoo_case.Zoo):
    programs = PROGRAMS
    python = None

    def start_of(self, program, env):
        """`DEVICE` of the environment: a description in cuda/sim/devices, or one of this folder's."""
        device = env.pop("DEVICE", "a100")
        env.update(device_environment(self.sim_lib, device))
        return [self.python, self.programs / program]


def samples_per_s(job):
    """By the job's own clock, between two synchronised steps."""
    return job.report["ranks"][0]["steps"]["samples_per_step"] * 1e3 / job.own_step_ms


def assert_kept(found, before, after):
    """The prediction or the upper bound, by the own clock of the job with the fix applied."""
    promise = found["prediction"] or below_ceiling(before, found)
    low, high = promise["low"], promise["high"]
    achieved = samples_per_s(after) if promise["metric"] == "samples_per_s" else after.own_step_ms
    is_kept = low <= achieved <= high
    if not is_kept and (before.injected.excused or after.injected.excused):
        pytest.skip("the machine's host took too much to see whether the promise is kept")
    assert is_kept, f"{found['id']}: {low} to {high}, achieved {achieved}\n{before.say()}\n{after.say()}"
