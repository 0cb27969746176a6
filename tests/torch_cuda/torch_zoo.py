# SPDX-License-Identifier: Apache-2.0
"""Rows of the zoo (tests/zoo/zoo_case.py) on the CUDA build of PyTorch on the simulated device."""

import sys
from pathlib import Path

from torch_case import PROGRAMS, device_environment

sys.path.insert(0, str(Path(__file__).parents[1] / "zoo"))
import zoo_case  # noqa: E402
from zoo_case import Case, check_healthy  # noqa: E402, F401


class TorchZoo(zoo_case.Zoo):
    programs = PROGRAMS
    python = None

    def start_of(self, program, env):
        """`DEVICE` of the environment: a description in cuda/sim/devices, or one of this folder's."""
        device = env.pop("DEVICE", "a100")
        env.update(device_environment(self.sim_lib, device))
        return [self.python, self.programs / program]
