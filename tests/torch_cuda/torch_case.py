# SPDX-License-Identifier: Apache-2.0
"""Where the programs of these tests lie, and the environment of a process on the simulated device."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"


def device_environment(sim_lib, device):
    return {"LD_LIBRARY_PATH": str(sim_lib), "GWSIM_CONFIG": str(ROOT / f"cuda/sim/devices/{device}.conf")}
