# SPDX-License-Identifier: Apache-2.0
"""The CUPTI session against the simulated device's own log: every operation, its times, its call."""

import json
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
    assert trace.state("cupti") == "on"
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
    assert trace.state("cupti") == "on"
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
    (shape,) = [row for row in trace.kernels.values()]
    assert (shape["grid_x"], shape["grid_y"], shape["block_x"], shape["shared_bytes"]) == (4, 2, 128, 64)


def test_another_subscriber_keeps_its_place(on_device, guest):
    done, trace, _ = on_device([guest, "holder"])
    assert trace.state("cupti") == "held by somebody else"
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
    assert trace.state("cupti") in ("libcupti not found", "no GPU here")
    assert trace.ops == []
    assert len([call for call in trace.calls if call.name == "cudaMemsetAsync"]) == 10


def test_off_by_setting(on_device, guest):
    _, trace, _ = on_device([guest, "use"], env={"GPUWATCH_TRACE": "cuda"})
    assert trace.state("cupti") == "off by GPUWATCH_TRACE"
    assert trace.ops == []


def test_a_forked_child_leaves_cupti_alone(on_device, guest):
    _, trace, truth = on_device([guest, "fork"])
    assert_same_timeline(trace, truth, "memset")


def test_a_quick_exit_fetches_what_is_finished(on_device, guest):
    _, trace, _ = on_device([guest, "quick"], returncode=7)  # the device's own log is lost by _exit
    calls = [call.a for call in trace.calls if call.name == "cudaMemsetAsync"]
    assert len(calls) == 10
    assert [op.correlation for op in trace.of_kind("memset")] == sorted(calls)


def test_a_killed_job_keeps_what_was_fetched(injected_environment, sim_lib, workloads, gpuwatch, run_dir, tmp_path):
    truth = tmp_path / "truth.jsonl"
    environment = {**injected_environment, "LD_LIBRARY_PATH": str(sim_lib), "GWSIM_TRUTH": str(truth)}
    job = subprocess.Popen([workloads / "sync_each_step", "--steps", "100000"], env=environment, stdout=subprocess.DEVNULL)

    def samples():
        try:
            return [row for row in DeviceTrace(run_dir).tables["ClockSample"] if row["device_ns"]]
        except (AssertionError, IndexError, FileNotFoundError):
            return []

    try:
        until = time.monotonic() + 60
        while len(samples()) < 4 and time.monotonic() < until:
            time.sleep(0.2)
    finally:
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
    trace = DeviceTrace(run_dir)
    fetches = sorted(row["monotonic_ns"] for row in trace.tables["ClockSample"] if row["device_ns"])
    assert len(fetches) >= 4
    # A sample follows each fetch, so what ended before the last sample but one is there.
    kept = {op.correlation for op in trace.of_kind("kernel")}
    launched = {call.a for call in trace.calls if "Launch" in call.name and call.end_ns < fetches[-3]}
    assert launched and launched <= kept
    # What is missing is said: launches that got a correlation id and no record.
    done = subprocess.run([gpuwatch, "analyze", run_dir, "--json"], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    missing = {call.a for call in trace.calls if "Launch" in call.name and call.a} - kept
    assert report["coverage"]["launches_without_record"] == len(missing)
    assert any("have no device record" in sentence for sentence in report["limits"]) == bool(missing)
