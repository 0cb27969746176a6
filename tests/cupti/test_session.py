# SPDX-License-Identifier: Apache-2.0
"""The CUPTI session against the simulated device's own log: every operation, its times, its call."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from device_trace import DeviceTrace, Truth  # noqa: E402

# What stands between the device's clock and ours: half a bracket of a clock sample on each side, and its rounding.
CLOCK_ERROR_NS = 1000


@pytest.fixture
def on_device(inject, tmp_path, run_dir):
    """on_device(command) -> (finished run, its device trace, the device's log)"""

    def run(command, env=None, returncode=0):
        truth = tmp_path / "truth.jsonl"
        done = inject(command, env={"GWSIM_TRUTH": truth, **(env or {})}, sim=True)
        assert done.returncode == returncode, done.stderr
        return done, DeviceTrace(run_dir), Truth(truth)

    return run


@pytest.fixture
def guest(build):
    return build / "bin/guests/cupti_guest"


def assert_same_timeline(trace, truth, *kinds):
    """Every operation of the log is in the trace, once, with its duration to the nanosecond."""
    seen = trace.of_kind(*kinds)
    did = truth.of_kind(*kinds, *("copy." + kind for kind in kinds))
    assert did, f"the program did no {kinds}"
    assert [op.correlation for op in seen] == [op["corr"] for op in did]
    for op, logged in zip(seen, did):
        assert op.end_ns - op.start_ns == pytest.approx(logged["end"] - logged["start"], abs=1)
        assert op.start_ns == pytest.approx(logged["start"], abs=CLOCK_ERROR_NS)
        assert op.stream == logged["stream"]


@pytest.mark.parametrize("workload", ["sync_each_step", "pageable_copy", "exposed_copy", "two_streams", "trainer"])
def test_device_timeline_equals_the_log(on_device, workloads, workload):
    _, trace, truth = on_device([workloads / workload, "--steps", 12])
    assert trace.state("cupti") == "On"
    assert trace.lost == {}
    assert_same_timeline(trace, truth, "kernel")
    assert_same_timeline(trace, truth, "memset")
    assert_same_timeline(trace, truth, "h2d", "d2h", "d2d")
    named = {op.correlation: op.name for op in trace.of_kind("kernel")}
    assert named == {op["corr"]: op["name"] for op in truth.of_kind("kernel")}
    # Each operation belongs to exactly one host call.
    calls = [call.a for call in trace.calls if call.name.startswith(("cuda", "__cuda")) and call.a]
    assert len(calls) == len(set(calls))
    assert {op["corr"] for op in truth.ops} <= set(calls)


def test_copies_say_size_and_kind_of_memory(on_device, workloads):
    _, trace, truth = on_device([workloads / "pageable_copy", "--steps", 5])
    for op, logged in zip(trace.of_kind("h2d"), truth.of_kind("copy.h2d"), strict=True):
        assert op.bytes == logged["bytes"]
        assert op.source_pageable == (logged["src"] == "pageable")
    assert any(op.source_pageable for op in trace.of_kind("h2d"))


def test_device_is_described(on_device, workloads):
    _, trace, truth = on_device([workloads / "sync_each_step", "--steps", 3])
    (device,) = trace.tables["DeviceInfo"]
    assert device["name"] == truth.header["device"]
    assert device["memory_bytes"] > 0 and device["multiprocessors"] > 0 and device["runtime_version"] >= 13000


def test_calls_around_the_symbols_are_recorded_once(on_device, guest):
    _, trace, truth = on_device([guest, "around"])
    assert trace.state("cupti") == "On"
    by_name = {}
    for call in trace.calls:
        by_name.setdefault(call.name, []).append(call)
    assert len(by_name["cuLaunchKernel"]) == 3
    assert len(by_name["cudaMemsetAsync"]) == 1
    assert len(by_name["cudaDeviceSynchronize"]) == 1
    assert len(by_name["cudaMalloc"]) == 1
    launched = {call.a for call in by_name["cuLaunchKernel"]}
    assert launched == {op.correlation for op in trace.of_kind("kernel")}
    assert {op.name for op in trace.of_kind("kernel")} == {"triton_2ms"}
    # The synchronisation lasted until the device was done.
    sync = by_name["cudaDeviceSynchronize"][0]
    assert sync.end_ns >= max(op["end"] for op in truth.ops)
    (shape,) = trace.kernels.values()
    assert (shape["grid_x"], shape["grid_y"], shape["block_x"], shape["shared_bytes"]) == (4, 2, 128, 64)


def test_rare_calls_are_recorded(on_device, guest):
    _, trace, _ = on_device([guest, "rare"])
    assert {call.name for call in trace.calls if call.name.startswith("cuda")} == {
        "cudaMalloc", "cudaDeviceEnablePeerAccess", "cudaDeviceDisablePeerAccess", "cudaIpcOpenMemHandle",
        "cudaIpcCloseMemHandle", "cudaIpcOpenEventHandle", "cudaMemcpy2DArrayToArray", "cudaMemPrefetchBatchAsync",
        "cudaMemDiscardBatchAsync", "cudaGraphExecKernelNodeSetParams", "cudaLibraryLoadData",
    }  # fmt: skip


def test_another_subscriber_keeps_its_place(on_device, guest):
    done, trace, _ = on_device([guest, "holder"])
    assert trace.state("cupti") == "Held"
    assert trace.source("cupti")["holder"] == "somebody else"
    assert trace.source("cupti")["text"] == "held by somebody else"
    assert trace.ops == []
    assert {"cudaMalloc", "cudaMemset", "cudaDeviceSynchronize"} <= {call.name for call in trace.calls}
    assert done.stderr == ""


def test_without_a_usable_cupti_the_job_runs_as_ever(inject, guest, sim_lib, run_dir, tmp_path):
    # The runtime alone; whatever CUPTI the machine has is the real one, and has no driver.
    alone = tmp_path / "lib"
    alone.mkdir()
    for library in ("libcudart.so.13", "libgwsim_core.so"):
        (alone / library).symlink_to(sim_lib / library)
    done = inject([guest, "use"], env={"LD_LIBRARY_PATH": alone, "GWSIM_TRUTH": tmp_path / "truth"})
    assert (done.returncode, done.stderr) == (0, "")
    trace = DeviceTrace(run_dir)
    assert trace.state("cupti") == "Absent"
    assert trace.source("cupti")["text"].startswith(("libcupti not found", "no GPU found"))
    assert trace.ops == []
    assert len([call for call in trace.calls if call.name == "cudaMemsetAsync"]) == 10


def test_off_by_setting(on_device, guest):
    _, trace, _ = on_device([guest, "use"], env={"GPUWATCH_TRACE": "cuda"})
    assert trace.state("cupti") == "Off"
    assert trace.source("cupti")["text"].startswith("off by GPUWATCH_TRACE")
    assert trace.ops == []


def test_a_forked_child_leaves_cupti_alone(on_device, guest):
    _, trace, truth = on_device([guest, "fork"])
    assert_same_timeline(trace, truth, "memset")


def test_a_quick_exit_fetches_what_is_finished(on_device, guest):
    _, trace, _ = on_device([guest, "quick"], returncode=7)  # the device's own log is lost by _exit
    calls = [call.a for call in trace.calls if call.name == "cudaMemsetAsync"]
    assert len(calls) == 10
    assert [op.correlation for op in trace.of_kind("memset")] == sorted(calls)


def group_of(op):
    """Where coverage.calls_without_record counts the call that made this operation of the log; None: a graph's node."""
    if op["kind"] == "graph":
        return "graph_launches"
    if "graph" in op:
        return None
    return {"kernel": "launches", "memset": "memsets"}.get(op["kind"], "copies")


RECORDS = {"launches": ["kernel"], "graph_launches": ["graph"], "copies": ["h2d", "d2h", "d2d"], "memsets": ["memset"]}
CALLS = {
    "cuLaunchKernel": "launches", "cudaGraphLaunch": "graph_launches", "cudaMemsetAsync": "memsets", "cudaMemcpyAsync": "copies",
}  # fmt: skip


def calls_with_records(trace):
    """Correlation ids by group, without what the guest's capture took and what moved nothing."""
    capture_ended = next((call.end_ns for call in trace.calls if call.name == "cudaStreamEndCapture"), math.inf)
    result = {group: set() for group in RECORDS}
    for call in trace.calls:
        group = CALLS.get(call.name)
        if group and call.a and call.begin_ns > capture_ended and (group not in ("copies", "memsets") or call.detail[0] > 0):
            result[group].add(call.a)
    return result


def assert_said(report, missing):
    """The report counts what is missing, by kind, and says so in one sentence."""
    counted = report["coverage"]["calls_without_record"]
    assert counted == {**{group: len(ids) for group, ids in missing.items()}, "unclear": 0}
    assert report["coverage"]["launches_without_record"] == counted["launches"] + counted["graph_launches"]
    said = [sentence for sentence in report["limits"] if "have no GPU record" in sentence]
    named = {"launches": "kernel launches", "graph_launches": "graph launches"}
    words = [f"{len(ids)} {named.get(group, group)}" for group, ids in missing.items() if ids]
    assert [sentence.split(" have ")[0] for sentence in said] == ([", ".join(words)] if words else [])


def test_what_has_not_come_when_the_job_ends_is_counted(on_device, guest):
    done, trace, truth = on_device([guest, "leave"])
    missing = {}
    for group, kinds in RECORDS.items():
        did = {op["corr"] for op in truth.ops if group_of(op) == group}
        seen = {op.correlation for op in trace.of_kind(*kinds)}
        assert seen < did, group
        missing[group] = did - seen
    # Twenty rounds behind a kernel of seconds, and that kernel.
    assert {group: len(ids) for group, ids in missing.items()} == {
        "launches": 21, "graph_launches": 20, "copies": 60, "memsets": 20
    }  # fmt: skip
    assert_said(done.report(), missing)


def fetch_times(trace):
    """When records were fetched: a sample of the device's clock follows each fetch."""
    return sorted(row["monotonic_ns"] for row in trace.tables["ClockSample"] if row["device_ns"])


def missing_in(trace):
    """Correlation ids by group that have no record."""
    calls = calls_with_records(trace)
    return {group: ids - {op.correlation for op in trace.of_kind(*RECORDS[group])} for group, ids in calls.items()}


def killed_in_mid_run(command, environment, run_dir):
    """Runs the command until its trace has four fetches and something of each kind behind the last, then kills it.

    It is stopped while one looks, so that nothing is fetched between the look and the kill."""

    def is_worth_killing():
        try:
            trace = DeviceTrace(run_dir)
        except (AssertionError, IndexError, FileNotFoundError):
            return False  # it has only begun
        return len(fetch_times(trace)) >= 4 and all(missing_in(trace).values())

    job = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        for _ in range(120):
            time.sleep(0.5)
            os.kill(job.pid, signal.SIGSTOP)
            os.waitpid(job.pid, os.WUNTRACED)
            if is_worth_killing():
                break
            os.kill(job.pid, signal.SIGCONT)
        else:
            pytest.fail("there was never anything to be lost")
    finally:
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
    return DeviceTrace(run_dir)


def test_a_killed_job_is_one_fetch_short_and_says_by_how_much(injected_environment, sim_lib, guest, gpuwatch, run_dir, tmp_path):
    log = tmp_path / "truth.jsonl"
    environment = {**injected_environment, "LD_LIBRARY_PATH": str(sim_lib), "GWSIM_TRUTH": str(log)}
    trace = killed_in_mid_run([guest, "mixed"], environment, run_dir)
    truth = Truth(log)  # to within 32 KiB of the end
    before_last = fetch_times(trace)[-2] - CLOCK_ERROR_NS
    missing = missing_in(trace)
    for group, kinds in RECORDS.items():
        seen = {op.correlation for op in trace.of_kind(*kinds)}
        did = {op["corr"]: op["end"] for op in truth.ops if group_of(op) == group}
        # What the device had done before the last fetch began, which was after the sample before it, is there.
        due = {corr for corr, end in did.items() if end < before_last}
        assert due and due <= seen, group
        # Every operation of the log has a record or a call that counts as without, but for the call that was cut off.
        assert missing[group] and len(did.keys() - seen - missing[group]) <= 1, group
    done = subprocess.run([gpuwatch, "analyze", run_dir, "--json"], capture_output=True, text=True, check=True)
    assert_said(json.loads(done.stdout), missing)
