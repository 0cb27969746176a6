# SPDX-License-Identifier: Apache-2.0
"""Where the programs of these tests lie, and the environment of a process on the simulated device."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"


def device_environment(sim_lib, device):
    """`device`: the name of a description in cuda/sim/devices or in this folder."""
    descriptions = [folder / f"{device}.conf" for folder in (ROOT / "cuda/sim/devices", Path(__file__).parent)]
    return {
        "LD_LIBRARY_PATH": str(sim_lib),
        "GWSIM_CONFIG": str(next(path for path in descriptions if path.exists())),
        "USE_PYTORCH_KERNEL_CACHE": "0",  # of earlier runs, with which NVRTC would not be called
    }
