# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver's own way of letting a tool in: it loads the library that CUDA_INJECTION64_PATH names when it is
initialised. That works without LD_PRELOAD, and for programs whose CUDA calls no hooked symbol sees."""

import shutil
import sys

import pytest
from device_trace import DeviceTrace, Truth
from test_session import assert_same_timeline

# No symbol of CUDA linked, a static runtime, the shared runtime.
WORKLOADS = ["driver_api", "pageable_copy_static", "sync_each_step"]

# A Python program that initialises the driver, with or without PyTorch in the process.
USE_DRIVER = """
import ctypes, sys
{first}
driver = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
assert driver.cuMemsetD8_v2(memory, 0, ctypes.c_size_t(4096)) == 0
"""


@pytest.fixture
def record(inject, tmp_path, run_dir):
    """record(workload, env) -> (finished run, its device trace, the device's log)"""

    def run(workload, env=None):
        truth = tmp_path / "truth.jsonl"
        done = inject([workload, "--steps", 12], env={"GWSIM_TRUTH": truth, **(env or {})}, sim=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done, DeviceTrace(run_dir) if done.traces else None, Truth(truth)

    return run


@pytest.fixture
def opened(libgpuwatch):
    """Environment in which the driver loads the library, and nobody else does."""
    return {"LD_PRELOAD": "", "CUDA_INJECTION64_PATH": libgpuwatch}


def assert_recorded_once(run, trace, truth):
    assert [row["text"] for row in trace.tables["Source"] if row["name"] == "cupti"] == ["on"]
    assert len(run.traces) == 1
    assert trace.lost == {}
    assert_same_timeline(trace, truth, "kernel")
    assert_same_timeline(trace, truth, *{op["kind"].removeprefix("copy.") for op in truth.ops if "copy" in op["kind"]})
    launches = [call.a for call in trace.calls if "Launch" in call.name]
    assert len(launches) == len(set(launches)) == len(truth.of_kind("kernel"))
    assert run.report()["coverage"]["launches_matched_share"] == 1.0


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_driver_alone_lets_us_in(record, workloads, opened, workload):
    run, trace, truth = record(workloads / workload, opened)
    assert_recorded_once(run, trace, truth)
    for source in ("cuda", "io", "python"):
        assert trace.state(source) == "NotPreloaded"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_preloaded_we_let_ourselves_in(record, workloads, workload):
    run, trace, truth = record(workloads / workload)
    assert_recorded_once(run, trace, truth)
    assert trace.state("cuda") == trace.state("io") == "On"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_both_ways_at_once(record, workloads, libgpuwatch, workload):
    assert_recorded_once(*record(workloads / workload, {"CUDA_INJECTION64_PATH": libgpuwatch}))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_second_copy_leaves_it_to_the_first(record, workloads, libgpuwatch, tmp_path, workload):
    copy = shutil.copy(libgpuwatch, tmp_path / "another.so")
    run, trace, truth = record(workloads / workload, {"CUDA_INJECTION64_PATH": copy})
    assert_recorded_once(run, trace, truth)
    assert trace.state("io") == "On"


def test_another_tool_is_not_displaced(inject, workloads, build):
    env = {"CUDA_INJECTION64_PATH": build / "lib/libsim_injected.so"}
    run = inject([workloads / "driver_api", "--steps", 2], env=env, sim=True)
    assert run.returncode == 0
    assert run.stdout.startswith("injected, 1 devices")
    assert run.traces == []  # and so nobody told us of a program that no hooked symbol sees


def test_another_injected_tool_has_cupti_to_itself(inject, build):
    tool = build / "lib/guests/libinjected_tool.so"
    run = inject([build / "bin/guests/cupti_guest", "use"], env={"CUDA_INJECTION64_PATH": tool}, sim=True)
    assert run.returncode == 0
    assert "injected tool: cuptiSubscribe 0" in run.stderr
    (limit,) = (limit for limit in run.report()["limits"] if "cupti" in limit)
    assert "held by libinjected_tool.so (CUDA_INJECTION64_PATH): no device timeline" in limit


@pytest.mark.parametrize(
    "env",
    [{"CUDA_INJECTION64_PATH": "none"}, {"GPUWATCH_TRACE": "io,python"}, {"GPUWATCH_DISABLE": "1"}],
    ids=lambda env: next(iter(env)),
)
def test_who_does_not_want_it_does_not_get_it(record, workloads, env):
    run, trace, _ = record(workloads / "driver_api", env)
    assert trace is None and run.traces == []


def test_only_the_driver_is_answered(inject):
    # Only the driver is answered; the environment itself stays as it was.
    ask = (
        "import ctypes, os; get = ctypes.CDLL(None).getenv; get.restype = ctypes.c_char_p;"
        "print(get(b'CUDA_INJECTION64_PATH'), os.environ.get('CUDA_INJECTION64_PATH'), get(b'HOME').decode());"
        "os.system('env | grep INJECTION')"
    )
    run = inject([sys.executable, "-c", ask], env={"HOME": "/home/of/mine"})
    assert (run.returncode, run.stdout, run.stderr) == (0, "None None /home/of/mine\n", "")


@pytest.mark.parametrize(
    "first, wanted, state",
    [("", {}, "On"), ("import torch", {}, "Off"), ("import torch", {"GPUWATCH_TRACE": "cuda,cupti"}, "On")],
    ids=["plain", "torch", "torch-asked-for"],
)
def test_beside_pytorch_cupti_is_left_alone(inject, opened, run_dir, first, wanted, state):
    run = inject([sys.executable, "-c", USE_DRIVER.format(first=first)], env={**opened, **wanted}, sim=True)
    assert (run.returncode, run.stderr) == (0, "")
    trace = DeviceTrace(run_dir)
    assert trace.state("cupti") == state
    assert len(trace.of_kind("memset")) == (state == "On")
