# SPDX-License-Identifier: Apache-2.0
"""The zoo's rows about the script, and the phases of a run against what the script itself logged.

`hang` (a minute without progress) and `startup-share` (a minute of it) are proved in tests/unit/analyzer_advise alone: their
thresholds are longer than a test may take. `repeated-copy` has no rule: a copy's source is not recorded.
"""

import json

import pytest
from zoo_case import Case, check_healthy

SCRIPT = "script.py"

CASES = [
    # 300 ms every ten steps of 30 ms, against every sixty.
    Case(
        "checkpoint-stall", SCRIPT, has=["--save-every", 10], neighbour=["--save-every", 60, "--save-ms", 30],
        fix={"setting": "checkpoint", "value": ""}, applied=[],
    ),
    # 32 KiB a step into a pipe whose reader takes 6 ms for 4 KiB. The neighbour writes the same twice in the run.
    Case(
        "logging-stall", SCRIPT, has=["--log-every", 1], neighbour=["--log-every", 50],
        fix={"setting": "logging interval", "value": ""}, applied=["--log-every", 100],
    ),
    # The same collections, over objects that are frozen.
    Case(
        "gc-pause", SCRIPT, has=["--objects", 400_000, "--collect"], neighbour=["--objects", 400_000, "--collect", "--freeze"],
        fix={"setting": "gc", "value": "freeze"}, gain="prediction",
    ),
    # An environment that answers after 20 ms, in each step; the neighbour's step is as long, and computing.
    Case(
        "host-work", SCRIPT, has=["--sleep-ms", 20], neighbour=["--train-ms", 50],
        fix={"setting": "own work", "value": ""}, applied=[],
    ),
    Case(
        "evaluation-share", SCRIPT, has=["--epochs", 3, "--batches", 25, "--validate-batches", 20],
        neighbour=["--epochs", 3, "--batches", 25, "--validate-batches", 2],
        fix={"setting": "evaluation interval", "value": ""}, gain="ceiling", location="script.py:",
    ),
    Case(
        "debug-left-on", SCRIPT, name="anomaly", has=["--anomaly"], neighbour=[],
        fix={"setting": "anomaly_mode", "value": "off"}, gain=None,
    ),
    Case(
        "debug-left-on", SCRIPT, name="environment", has=[], neighbour=["--batches", 61],
        env={"PYTHONTRACEMALLOC": "1"}, neighbour_env={"PYTHONTRACEMALLOC": "0", "NCCL_DEBUG": "TRACE", "CUDA_LAUNCH_BLOCKING": "1"},
        fix={"setting": "PYTHONTRACEMALLOC", "value": "off"}, gain=None,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=Case.name_of)
def test_script(case, zoo):
    zoo.check(case)


def test_healthy(zoo):
    """Saves, logs and evaluates, each as rarely as it should."""
    check_healthy(zoo.run(SCRIPT, ["--epochs", 2, "--batches", 50, "--train-ms", 50, "--save-every", 100, "--save-ms", 50,
                                   "--log-every", 50, "--validate-batches", 5]))  # fmt: skip


def test_phases_are_those_that_the_script_logged(zoo):
    """Seconds of evaluation and of saving, by the script's own clock."""
    job = zoo.run(SCRIPT, ["--epochs", 3, "--batches", 20, "--validate-batches", 15, "--save-every", 15, "--save-ms", 200])
    logged = json.loads(job.injected.stdout.splitlines()[-2])
    phases = {phase["kind"]: phase for phase in job.report["ranks"][0]["phases"]}
    assert phases["evaluation"]["count"] == 3
    assert phases["checkpoint"]["count"] == 4
    # A save is seen from the opening of its archive on: pickling before it is not.
    for kind in ("evaluation", "checkpoint"):
        assert phases[kind]["seconds"] == pytest.approx(logged[kind], rel=0.03, abs=0.01), job.say()
    # No step holds an evaluation: the longest step is one with a save.
    assert job.report["ranks"][0]["steps"]["mean_ms"] < 30 + 200 / 15 + 15, job.say()
