# SPDX-License-Identifier: Apache-2.0
"""The zoo's rows about the device: what NVML says of it (devices/*.conf), its memory, code and algorithms that come back
step after step, several GPUs in one process. All on the simulated device."""

from pathlib import Path

import pytest
from zoo_case import Case

DEVICES = Path(__file__).with_name("devices")


def device(name):
    return {"GWSIM_CONFIG": DEVICES / f"{name}.conf"}


SIX_SECONDS = ["--steps", 900]  # as many samples as the rules want
CASES = [
    Case(
        "gpu-clocks", "healthy", together=True, has=SIX_SECONDS, neighbour=SIX_SECONDS, env=device("too_hot"), neighbour_env=device("at_its_power"),
        fix={"setting": "cooling", "value": "better"}, gain="ceiling",
    ),
    Case(
        "gpu-shared", "healthy", together=True, has=SIX_SECONDS, neighbour=SIX_SECONDS, env=device("beside_another"),
        neighbour_env=device("beside_a_notebook"), fix={"setting": "GPU", "value": "exclusive use"}, gain="ceiling",
    ),
    Case(
        "gpu-idle-others", "healthy", together=True, has=SIX_SECONDS, neighbour=SIX_SECONDS, env=device("two_gpus"),
        neighbour_env=device("two_gpus_in_use"), fix={"setting": "nproc_per_node", "value": "2"}, gain="ceiling",
    ),
    Case(
        "pcie-link", "exposed_copy", together=True, has=["--steps", 600], neighbour=["--steps", 600], env=device("eight_lanes"), neighbour_env={},
        fix={"setting": "PCIe link", "value": "PCIe 4 x16"}, gain="ceiling", on_neighbour=("blocking-copy",),
        behind=("blocking-copy",), why_behind="copies beside the computation gain more than shorter ones",
    ),
    # 16 MiB a step that nothing frees; the neighbour frees them.
    Case(
        "memory-growth", "malloc_each_step", has=["--workspaces", 1, "--workspace-mib", 16, "--keep", "--steps", 120],
        neighbour=["--workspaces", 1, "--workspace-mib", 16, "--steps", 120], fix={"setting": "references", "value": "released"},
        gain=None, location="malloc_each_step.cu:", behind=("sync-per-step", "allocator-churn"), why_behind="they gain time",
        may_on_neighbour=("allocator-churn",),
    ),
    # Blocks of 50 and 51 of 80 GiB take turns; the neighbour's of 20 and 21 have room.
    Case(
        "memory-pressure-device", "full_memory", has=["--steps", 100], neighbour=["--steps", 100, "--block-gib", 20],
        fix={"setting": "batch_size", "value": ""}, gain="ceiling",
    ),
    # 20 ms every fifth step, for the whole run or for its first steps.
    Case(
        "recompilation", "driver_api", has=["--steps", 200, "--compile-every", 5, "--metrics-ms", 0.1],
        neighbour=["--steps", 200, "--compile-every", 5, "--compile-until", 26, "--metrics-ms", 0.1],
        fix={"setting": "compiled code", "value": "kept"}, gain="ceiling", behind=("sync-per-step", "host-work"),
        why_behind="the program waits for its loss in each step, and sleeps", may_on_neighbour=("sync-per-step", "host-work", "long-steps"),
    ),
    # 4 ms of algorithms every other step; the neighbour tries them once.
    Case(
        "cudnn-autotune", "conv_search", has=["--steps", 100, "--every", 2], neighbour=["--steps", 100, "--every", 0],
        fix={"setting": "cudnn benchmark", "value": "False"}, gain="ceiling", behind=("sync-per-step",),
        why_behind="a search waits for its kernels",
    ),
    # 256 MiB to the second GPU and back in each step; the neighbour's second GPU goes on where the first one ends.
    Case(
        "data-parallel", "data_parallel", has=["--steps", 100], neighbour=["--steps", 100, "--in-turn"],
        fix={"setting": "nproc_per_node", "value": "2"}, gain="ceiling", behind=("sync-per-step",),
        why_behind="the program waits for the device in each step", may_on_neighbour=("sync-per-step",),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=Case.name_of)
def test_device(case, zoo):
    zoo.check(case)
