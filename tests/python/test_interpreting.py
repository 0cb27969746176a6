# SPDX-License-Identifier: Apache-2.0
"""A sample of the training thread tells whether it is among short operations that Python calls. By itself: next to a test that
keeps a CPU busy the thread often has none while the sampling thread looks, and then seems to be in a long call."""

import bisect
import math

import pytest
from conftest import PROGRAMS, STUB, interpreters, name_of


@pytest.mark.parametrize("interpreter", interpreters(), ids=name_of)
def test_training_thread_interprets_where_its_own_log_says_so(interpreter, run_watched):
    watched = run_watched([interpreter, PROGRAMS / "interpreting.py"], env={"PYTHONPATH": f"{STUB}:{PROGRAMS}"})
    assert watched.returncode == 0, watched.stderr
    log = watched.result["log"]
    seen = {"lines": [], "one_line": [], "one_call": [], "sleep": []}
    for sample in watched.trace.stacks:
        place = bisect.bisect_right(log, [sample.begin_ns, math.inf, ""])
        running = log[place - 1] if place and sample.is_of_training else None
        # Between the sample and the looks that follow the sampling thread may lose its CPU.
        if running and running[0] + 5e6 < sample.begin_ns < running[1] - 20e6:
            seen[running[2]].append(sample.name == "interpreting")
    assert min(len(looks) for looks in seen.values()) >= 5, seen
    # A thread that waits for a CPU does not go on; one in a call never does.
    assert sum(seen["lines"]) >= len(seen["lines"]) / 2, seen
    assert sum(seen["one_line"]) >= len(seen["one_line"]) / 2, seen
    assert not any(seen["one_call"]) and not any(seen["sleep"]), seen
