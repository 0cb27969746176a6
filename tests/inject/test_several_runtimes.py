# SPDX-License-Identifier: Apache-2.0
"""Two CUDA runtimes in one process: each library's calls reach the one that they reach without us."""

import pytest

pytestmark = pytest.mark.beside_others

# Steps of guests/runtimes.c, and the runtimes that calls reach.
CASES = {
    "one": ("extension13 call", {"130"}),
    "each-its-own": ("extension12 extension13 call", {"120", "130"}),
    "one-is-global": ("runtime12+global extension12 extension13 call", {"120"}),
    "global-too-late": ("extension13 runtime12+global call", {"130"}),
    "deepbind": ("runtime12+global extension13+deepbind call", {"130"}),
    "tail-call": ("runtime_helper extension13 call", {"120", "130"}),
    "second-comes-later": ("extension12 call extension13 call", {"120", "130"}),
    "versions": ("runtime12_versioned+global extension13_versioned call", {"120", "130"}),
    "reopened": ("extension12 call extension12+close extension13 call extension13+close extension12 call", {"120", "130"}),
    "closes-with-a-join": ("joining extension13 call joining+close call", {"120", "130"}),
}


@pytest.mark.parametrize("disabled", ["0", "1"])
@pytest.mark.parametrize("case", CASES)
def test_calls_reach_the_same_runtime(same, guests, guest_libraries, case, disabled):
    steps, runtimes = CASES[case]
    done = same([guests / "runtimes", guest_libraries, *steps.split()], env={"GPUWATCH_DISABLE": disabled})
    assert {word for line in done.stdout.decode().splitlines() for word in line.split()[2:]} == runtimes
