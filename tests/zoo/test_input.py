# SPDX-License-Identifier: Apache-2.0
"""The zoo's rows about the input pipeline."""

import pytest
from zoo_case import Case, check_healthy

SLOW = "slow_dataset.py"

CASES = [
    # 20 ms to make a batch beside 20 ms to use it: a worker hides it.
    Case(
        "dataloader-workers", SLOW, has=["--workers", 0], neighbour=["--workers", 2, "--service-ms", 15],
        fix={"setting": "num_workers", "value": ""}, location="slow_dataset.py:",
    ),
    # Ten quick batches, then one that takes as long as five steps: the mean is quick enough, the buffer too short for it.
    Case(
        "dataloader-prefetch", SLOW, has=["--workers", 1, "--prefetch", 1, "--service-ms", 5, "--slow-ms", 120, "--slow-every", 12],
        neighbour=["--workers", 1, "--prefetch", 16, "--service-ms", 5, "--slow-ms", 120, "--slow-every", 12],
        fix={"setting": "prefetch_factor", "value": ""}, location="slow_dataset.py:",
        behind=("dataloader-workers",), why_behind="a second worker doubles the buffer as well",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=Case.name_of)
def test_input(case, zoo):
    zoo.check(case)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workers", 2, "--service-ms", 5, "--train-ms", 100, "--batches", 30],
        ["--workers", 1, "--service-ms", 5, "--train-ms", 100, "--batches", 30, "--validate"],
        ["--workers", 0, "--service-ms", 0.2, "--train-ms", 100, "--batches", 30],
    ],
    ids=["workers", "validation", "no-workers"],
)
def test_healthy(arguments, zoo):
    """Nothing is wrong, in several shapes: nothing above info. Handing a batch over costs 1 to 3 ms: steps are long against it."""
    check_healthy(zoo.run(SLOW, arguments))
