# SPDX-License-Identifier: Apache-2.0
"""A job that ends before its first training step: the verdict says so, and how it ended as far as that is known."""

import signal

import pytest
from torch_case import PROGRAMS, device_environment

pytestmark = pytest.mark.beside_others
ERROR = "ENDED WITH AN ERROR: broken.py exited with code {} before it completed a training step; its own output says why"


@pytest.fixture
def broken(torch_cuda, sim_lib, inject):
    def run(how):
        return inject([torch_cuda, PROGRAMS / "broken.py", how], env=device_environment(sim_lib, "a100"), sim=True)

    return run


@pytest.mark.parametrize(
    ("how", "code"), [("exit", 3), ("raise", 1), ("out_of_memory", 1), ("forward", 1), ("loader", 1), ("quick_exit", 4)]
)
def test_an_error_in_set_up(broken, how, code):
    job = broken(how)
    assert job.returncode == code, job.stderr
    verdict = job.report()["verdict"]
    assert (verdict["id"], verdict["sentence"]) == ("no-training", ERROR.format(code))
    assert job.analyze().stdout.startswith(ERROR.format(code)[:40])


def test_killed_in_set_up(broken):
    job = broken("kill")
    assert job.returncode == -signal.SIGKILL
    verdict = job.report()["verdict"]
    assert verdict["id"] == "no-training"
    assert verdict["sentence"].startswith("KILLED OR CRASHED: broken.py left no exit code")


def test_no_error_and_no_training(broken):
    job = broken("sound")
    assert job.returncode == 0
    assert job.report()["verdict"]["id"] == "no-training"
