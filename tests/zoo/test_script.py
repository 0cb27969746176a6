# SPDX-License-Identifier: Apache-2.0
"""The zoo's rows about the script, and the phases of a run against what the script itself logged."""

import json
import os
import subprocess
import sys

import pytest
from zoo_case import PROGRAMS, Case, check_healthy

SCRIPT = "script.py"

CASES = [
    # 300 ms every ten steps of 30 ms, against every sixty.
    Case(
        "checkpoint-stall", SCRIPT, has=["--save-every", 10], neighbour=["--save-every", 60, "--save-ms", 30],
        fix={"setting": "checkpoint", "value": ""}, applied=[],
    ),
    # 32 KiB a step into a pipe whose reader takes 6 ms for 4 KiB. The neighbour writes the same twice in the run, and
    # what is advised not at all in so few steps.
    Case(
        "logging-stall", SCRIPT, has=["--log-every", 1], neighbour=["--log-every", 25],
        fix={"setting": "logging interval", "value": ""}, applied=["--log-every", 500],
    ),
    # The same collections, over objects that are frozen.
    Case(
        "gc-pause", SCRIPT, has=["--objects", 400_000, "--collect"], neighbour=["--objects", 400_000, "--collect", "--freeze"],
        fix={"setting": "gc", "value": "freeze"}, gain="prediction",
    ),
    # In no step's own work, but before the first batch of an epoch is asked for (PyKEEN).
    Case(
        "gc-pause", SCRIPT, name="between-epochs", has=["--epochs", 9, "--batches", 12, "--train-ms", 10, "--objects", 400_000, "--collect-between"],
        neighbour=["--epochs", 9, "--batches", 12, "--train-ms", 10, "--objects", 400_000, "--collect-between", "--freeze"],
        fix={"setting": "gc", "value": "freeze"}, gain="prediction",
        applied=["--epochs", 9, "--batches", 12, "--train-ms", 10, "--objects", 400_000, "--collect-between", "--freeze"],
    ),
    # An environment that answers after 20 ms, in each step; the neighbour's step is as long, and computing.
    Case(
        "host-work", SCRIPT, has=["--sleep-ms", 20], neighbour=["--train-ms", 50],
        fix={"setting": "own work", "value": ""}, applied=[],
    ),
    # Statistics of activations, kept by a hook; the neighbour computes as long within the layer.
    Case(
        "host-work", SCRIPT, name="hook", has=["--hook-ms", 20, "--train-ms", 5], neighbour=["--forward-ms", 20, "--train-ms", 5],
        fix={"setting": "own work", "value": ""}, gain="ceiling", location="script.py:", applied=["--train-ms", 5],
    ),
    # Settings of a larger server.
    Case(
        "cpu-contention", SCRIPT, name="threads", has=["--threads", 64, "--matmuls", 8, "--train-ms", 1, "--batches", 160],
        neighbour=["--threads", 1, "--matmuls", 8, "--train-ms", 1, "--batches", 160], fix={"setting": "torch.set_num_threads", "value": ""}, gain=None,
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
    # Beside batches from the loader's buffers 64 MiB come from one place in each step. Two such places by turns are a
    # double buffer, which the host fills anew.
    Case(
        "repeated-copy", "repeated_copy", has=["--tables", 1, "--steps", 200], neighbour=["--tables", 2, "--steps", 200],
        fix={"setting": "constant", "value": "on the device"}, location="trainer.cuh:",
        severity=("minor",), on_neighbour=("blocking-copy",), name="double-buffer",
        behind=("blocking-copy",), why_behind="a copy that runs beside the computation costs as little",
    ),
    # All that is copied is the batch: from the loader's buffers by turns, or from a single buffer, of which nothing says
    # whether it was filled anew.
    Case(
        "repeated-copy", "repeated_copy", has=["--tables", 1, "--steps", 200], neighbour=["--steps", 200], neighbour_program="exposed_copy",
        fix={}, severity=("minor",), on_neighbour=("blocking-copy",), behind=("blocking-copy",), name="loader",
    ),
    Case(
        "repeated-copy", "repeated_copy", has=["--tables", 1, "--steps", 200], neighbour=["--steps", 200], neighbour_program="two_streams",
        fix={}, severity=("minor",), behind=("blocking-copy",), name="single-buffer",
    ),
    # The same loop over batches in pageable and in page-locked memory.
    Case(
        "pin-memory", "pageable_copy", has=["--steps", 200], neighbour=["--steps", 200], neighbour_program="exposed_copy",
        fix={"setting": "pin_memory", "value": "True"}, location="trainer.cuh:", gain="ceiling", on_neighbour=("blocking-copy",),
    ),
    # 220 files are opened before the first step, at 55 ms each.
    Case(
        "startup-share", "slow_start", together=True, has=["{files}"], neighbour=["{files}"], files=(220, 4096), storage={"open_us": 55000},
        fix={"setting": "dataset scan", "value": ""}, gain="ceiling",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=Case.name_of)
def test_script(case, zoo):
    zoo.check(case)


def test_healthy(zoo):
    """Saves, logs and evaluates, each as rarely as it should."""
    check_healthy(zoo.run(SCRIPT, ["--epochs", 2, "--batches", 50, "--train-ms", 50, "--save-every", 100, "--save-ms", 50,
                                   "--log-every", 50, "--validate-batches", 5]))  # fmt: skip


def test_repeated_copy_gains_the_copies(zoo):
    """What the simulated device was told that a copy takes: nothing else ran meanwhile."""
    promised = zoo.run("repeated_copy", ["--tables", 1, "--steps", 200]).find("repeated-copy")["prediction"]
    assert promised["now"] - promised["expected"] == pytest.approx(64 * 2**20 / 20e9 * 1e3, rel=0.05)


@pytest.fixture
def hanging(injected_environment, run_dir, gpuwatch, build):
    """A job that is still there after 20 steps, and look(ahead_s): the report of somebody who looks so much later."""
    command = [sys.executable, PROGRAMS / SCRIPT, "--hang-after", "20", "--train-ms", "10"]
    job = subprocess.Popen([str(word) for word in command], env=injected_environment, stdout=subprocess.PIPE, text=True)

    def look(ahead_s):
        env = {**os.environ, "LD_PRELOAD": str(build / "lib/guests/clock_ahead.so"), "CLOCK_AHEAD_S": str(ahead_s)}
        done = subprocess.run([gpuwatch, "analyze", "--json", run_dir], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert job.stdout.readline() == "waiting\n"
    yield job, look
    job.kill()
    job.wait()
    job.stdout.close()


def hangs_of(report):
    return [finding for finding in report["findings"] if finding["id"] == "hang"]


def test_hang(hanging):
    """A rank that waits for a peer: at once it may be a long step, a minute later it is none, and once it was killed either.
    Waiting that minute would change nothing but the time: a job that hangs records nothing."""
    job, look = hanging
    assert not hangs_of(look(0))
    assert not hangs_of(look(50))
    report = look(100)
    (hang,) = hangs_of(report)
    assert report["findings"][0] == hang and hang["severity"] == "major"
    evidence = {row["what"]: row["value"] for row in hang["evidence"]}
    assert evidence["completed before"] == 20 and 100 <= evidence["time since the last finished call"], hang
    assert " in read for 1" in hang["title"] and str(job.pid) in hang["fix"]["summary"], hang
    assert report["verdict"]["sentence"].startswith("NO PROGRESS for 1"), report["verdict"]


def test_no_hang_after_the_end(zoo):
    """A job of the same steps that ended, however much later one looks."""
    assert not hangs_of(zoo.run(SCRIPT, ["--batches", 20, "--train-ms", 10]).report)


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
    # No step holds an evaluation: the script's own mean, over all but the first of its 60 steps, holds two of the three.
    without = job.own_step_ms - 1e3 * (logged["evaluation"] - logged["last_evaluation"]) / 59
    assert job.report["ranks"][0]["steps"]["mean_ms"] == pytest.approx(without, rel=0.05), job.say()
