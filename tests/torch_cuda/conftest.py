# SPDX-License-Identifier: Apache-2.0
"""The CUDA build of PyTorch on the simulated device."""

import os
import subprocess
from pathlib import Path

import pytest
from torch_case import PROGRAMS, ROOT, device_environment
from torch_zoo import TorchZoo


@pytest.fixture(scope="session")
def torch_cuda():
    """The Python that has it. It is half a gigabyte and not part of the set-up, so it may be absent. `make test` tries to fetch it."""
    python = Path(os.environ.get("GPUWATCH_TORCH_CUDA", ROOT / "build/torch-cuda")) / "bin/python"
    if not python.exists():
        pytest.skip(f"the CUDA build of PyTorch is not in {python.parent.parent}: run `make torch-cuda` (526 MB)")
    return python


@pytest.fixture
def on_device(torch_cuda, sim_lib):
    """on_device("features.py", ...): runs a program of this folder there, without gpuwatch."""

    def run(program, *arguments, device="a100", env=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUWATCH_", "GWSIM_", "LD_"))}
        environment |= device_environment(sim_lib, device) | {name: str(value) for name, value in (env or {}).items()}
        command = [torch_cuda, PROGRAMS / program, *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)

    return run


@pytest.fixture(scope="module")
def remembered_jobs():
    return {}


@pytest.fixture
def zoo(inject, tmp_path, remembered_jobs, build, libgpuwatch, workloads, sim_lib, torch_cuda):
    made = TorchZoo(inject, tmp_path, remembered_jobs, build, libgpuwatch, workloads, sim_lib)
    made.python = torch_cuda
    return made
