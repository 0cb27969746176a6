# SPDX-License-Identifier: Apache-2.0
"""While the training thread is sampled, another thread that has the GIL is seen, with its line."""

import bisect
import math

import pytest
from conftest import PROGRAMS, STUB, interpreters, name_of


@pytest.mark.parametrize("interpreter", interpreters(), ids=name_of)
def test_a_thread_is_seen_where_its_own_log_says_that_it_has_the_gil(interpreter, run_watched):
    watched = run_watched([interpreter, PROGRAMS / "other_thread.py"], env={"PYTHONPATH": f"{STUB}:{PROGRAMS}"})
    assert watched.returncode == 0, watched.stderr
    log = watched.result["log"]
    looks = {"count": [0, 0], "hash_blocks": [0, 0], "sleep": [0, 0]}  # samples of the training thread; of the other

    def add(sample, of_other):
        place = bisect.bisect_right(log, [sample.begin_ns, math.inf, ""])
        running = log[place - 1] if place else None
        # Between its looks the sampling thread may lose its CPU.
        if running and running[0] + 5e6 < sample.begin_ns < running[1] - 20e6:
            looks[running[2]][of_other] += 1

    others = [sample for sample in watched.trace.stacks if sample.name == "another thread"]
    for sample in watched.trace.stacks:
        if sample.is_of_training:
            add(sample, 0)
    for sample in others:
        add(sample, 1)
        assert not sample.is_of_training and not sample.is_of_worker
    assert min(of_training for of_training, _ in looks.values()) >= 5, looks
    assert looks["count"][1] >= looks["count"][0] / 2, looks
    assert looks["sleep"][1] == 0, looks
    assert looks["hash_blocks"][1] <= looks["hash_blocks"][0] / 5, looks  # between two calls
    lines = [frame for sample in others for frame in sample.frames[:1]]
    assert sum("other_thread.py" in line and line.endswith(" count") for line in lines) >= len(lines) * 0.8, lines
    assert all(sample.frames[-1].split(" ")[-1].endswith("_bootstrap") for sample in others), others
