# SPDX-License-Identifier: Apache-2.0
"""Stalls of a program without Python: the functions that led to them, by return address, from unwind tables alone."""

import subprocess

import pytest

pytestmark = pytest.mark.beside_others


def functions_of(program, addresses):
    words = ["addr2line", "-f", "-e", program, *(hex(int(address, 16) - 1) for address in addresses)]
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True).stdout.splitlines()[::2]


def test_waits_carry_the_functions_that_led_to_them(recorded, guests):
    trace = recorded([guests / "stalls"])
    assert trace.state("stacks") == "On"
    waits = [stack for stack in trace.stacks if stack.name == "pthread_cond_wait"]
    assert len(waits) >= 5  # of ten; what walks may cost is limited
    for stack in waits:
        functions = functions_of(guests / "stalls", stack.frames)
        assert [f for f in functions if f in ("wait_for_batch", "train_step", "main")] == ["wait_for_batch", "train_step", "main"]
    begins = {(call.thread, call.begin_ns) for call in trace.calls("Wait")}
    assert {(stack.thread, stack.begin_ns) for stack in waits} <= begins


def test_without_an_unwinder_it_is_said(recorded, guests):
    # CUPTI, where it is opened, brings libgcc_s along.
    trace = recorded([guests / "stalls_in_c"], env={"GPUWATCH_TRACE": "cuda,io"})
    assert trace.state("stacks") == "Absent"
    assert "no libgcc_s" in trace.source("stacks")["text"]
    assert trace.stacks == []
    assert "pthread_cond_wait" in {call.name for call in trace.calls("Wait")}
