# SPDX-License-Identifier: Apache-2.0
"""The zoo's rows about calls that wait for the device, one for the work that another has waited for: as people write
`.cpu()`, `.tolist()`, `print(loss)`. On the simulated device."""

import pytest
from zoo_case import Case

FETCH = "fetch_each_step"
STEPS = ["--steps", 200]
# Reads what was copied to page-locked memory two steps before.
LATE = [*STEPS, "--late", "--synchronizes", 0]
FETCH_32_MIB = [*STEPS, "--fetch-kib", 32768, "--late", "--synchronizes", 0]
WAITS = {"setting": "synchronisation"}
CASES = [
    # A pageable copy and the synchronization behind it: without either alone, the other waits as long. What the
    # program computes of the data can move as well as be late: the step is as short either way.
    Case(
        "sync-per-step", FETCH, has=STEPS, neighbour=LATE, applied=LATE, fix=WAITS, behind=("host-work",),
        location="fetch_each_step.cu:", name="fetch",
    ),
    Case(
        "sync-per-step", FETCH, has=[*STEPS, "--fetch-kib", 1], neighbour=LATE, applied=LATE, fix=WAITS,
        location="fetch_each_step.cu:", name="loss",
    ),
    # cudaFree waits for the device as well.
    Case(
        "sync-per-step", FETCH, has=[*STEPS, "--fetches", 0, "--workspaces", 2], neighbour=LATE, applied=LATE, fix=WAITS,
        location="fetch_each_step.cu:", name="free",
    ),
    # How fast copies to page-locked memory are is not known from pageable ones: an upper bound.
    Case(
        "sync-per-step", FETCH, has=[*STEPS, "--fetch-kib", 32768], neighbour=FETCH_32_MIB, applied=FETCH_32_MIB, fix=WAITS,
        gain="ceiling", on_neighbour=("blocking-copy",), name="data",
    ),
    # The device copies 32 MiB a step to page-locked memory before it trains on. Nothing that the host does takes long.
    Case(
        "blocking-copy", FETCH, has=[*FETCH_32_MIB, "--metrics-ms", 0.5], neighbour=[*FETCH_32_MIB, "--metrics-ms", 0.5, "--own-stream"],
        applied=[*FETCH_32_MIB, "--metrics-ms", 0.5, "--own-stream"],
        fix={"setting": "copy stream"}, location="fetch_each_step.cu:", name="fetch",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=Case.name_of)
def test_waits(case, zoo):
    zoo.check(case)
