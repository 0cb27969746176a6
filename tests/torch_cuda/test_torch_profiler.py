# SPDX-License-Identifier: Apache-2.0
"""A job under torch.profiler: the trace that it exports has the same events whether gpuwatch is loaded or not.

The device runs the same work in both runs, so names, counts, places and what belongs to what must agree; times differ.
"""

import json
from collections import Counter

import pytest
from torch_case import PROGRAMS, device_environment

pytestmark = pytest.mark.beside_others

STEPS = 4  # of programs/profiled.py
# What is told of an operation and does not depend on when it ran.
FACTS = ("stream", "device", "grid", "block", "shared memory", "bytes")


def events(path):
    return [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") in ("X", "s", "f")]


def operations(trace):
    """Each device operation in the device's order, with the call that its correlation id leads to."""
    calls = {e["args"]["correlation"]: e["name"] for e in trace if e.get("cat") == "cuda_runtime"}
    found = [e for e in trace if e.get("cat", "").startswith(("kernel", "gpu_mem"))]
    found.sort(key=lambda event: event["ts"])
    facts = [tuple(str(e["args"].get(fact)) for fact in FACTS) for e in found]
    return [(e["name"], calls.get(e["args"]["correlation"]), *fact) for e, fact in zip(found, facts)]


def launched_within(trace):
    """How often a call with this name came out of the operator with that name, by Kineto's ids."""
    operators = {e["args"]["External id"]: e["name"] for e in trace if e.get("cat") == "cpu_op"}
    calls = [e for e in trace if e.get("cat") == "cuda_runtime"]
    return Counter((e["name"], operators.get(e["args"].get("External id"))) for e in calls)


def counted(trace):
    return Counter((e["ph"], e.get("cat"), e["name"]) for e in trace)


@pytest.fixture
def traces(on_device, inject, torch_cuda, sim_lib, tmp_path):
    alone, beside = tmp_path / "alone.json", tmp_path / "beside.json"
    run = on_device("profiled.py", alone)
    assert run.returncode == 0, run.stderr
    environment = device_environment(sim_lib, "a100")
    injected = inject([torch_cuda, PROGRAMS / "profiled.py", beside], env=environment, sim=True, timeout=600)
    assert injected.returncode == 0, injected.stderr
    assert injected.traces
    return events(alone), events(beside)


def test_exported_trace_is_the_same(traces):
    alone, beside = traces
    assert counted(beside) == counted(alone)
    assert operations(beside) == operations(alone)
    assert launched_within(beside) == launched_within(alone)
    # And it is a trace of that job: each step's copies, kernels behind calls, ranges on both sides.
    kinds = Counter(event.get("cat") for event in alone)
    assert kinds["gpu_memcpy"] == 2 * STEPS
    assert kinds["kernel"] and kinds["kernel"] % STEPS == 0
    assert all(call for _, call, *_ in operations(alone))
