# SPDX-License-Identifier: Apache-2.0
"""The stall zoo: one real job for each cause that gpuwatch must recognise, and a neighbour that looks alike and has not got it.
See zoo_case.py for what a row says."""

import pytest
import zoo_case


@pytest.fixture(scope="module")
def remembered_jobs():
    return {}


@pytest.fixture
def zoo(inject, tmp_path, remembered_jobs, build, libgpuwatch, workloads, sim_lib):
    return zoo_case.Zoo(inject, tmp_path, remembered_jobs, build, libgpuwatch, workloads, sim_lib)
