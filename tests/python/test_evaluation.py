# SPDX-License-Identifier: Apache-2.0
"""Module.eval(): recorded once for each evaluation, where it is called, and it does what it did."""

import sys

import pytest
from conftest import PROGRAMS

pytestmark = pytest.mark.beside_others


def test_evaluations_are_recorded(run_both):
    plain, watched = run_both([sys.executable, PROGRAMS / "evaluating.py"])
    assert watched.returncode == plain.returncode == 0, watched.stderr
    assert watched.stdout == plain.stdout
    assert watched.stderr == plain.stderr
    trace = watched.trace
    assert trace.state("python") == "On"
    calls = [call for call in trace.all_calls if call.name == "Module.eval"]
    assert len(calls) == watched.result["evaluations"] == 3
    functions = {stack.frames[0].split()[-1] for stack in trace.stacks if stack.name == "Module.eval"}
    assert functions <= {"estimate_loss"}  # stacks are rationed
