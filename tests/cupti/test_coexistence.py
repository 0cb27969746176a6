# SPDX-License-Identifier: Apache-2.0
"""Another profiler beside gpuwatch: it gets what it gets without us, and our trace says when and why there is a gap."""

import json
import subprocess
import sys
from collections import Counter

import pytest
from device_trace import DeviceTrace, Truth

pytestmark = pytest.mark.beside_others
STEPS = 15
KERNELS_A_STEP = 12
WAYS = ["kineto", "kineto-bare", "teardown", "callbacks"]
RELEASES = [18, 24, 130001, 130100]


@pytest.fixture
def profiled(build, injected_environment, sim_lib, run_dir, tmp_path):
    """profiled(way, *pauses, device="", injected=True, program=None) -> (exit code and output, what the profiler got)"""

    def run(way, *pauses, device="", injected=True, env=None):
        config = tmp_path / "device.conf"
        config.write_text("launch_cost_us 0\n" + device)
        got = tmp_path / f"profiler{injected}"
        environment = {
            **injected_environment,
            "LD_LIBRARY_PATH": f"{sim_lib}:{build / 'lib/guests'}",
            "GWSIM_CONFIG": str(config),
            "GWSIM_TRUTH": str(tmp_path / f"truth{injected}"),
            "OTHER_PROFILER_OUT": str(got),
            **(env or {}),
        }
        if not injected:
            del environment["LD_PRELOAD"]
        command = [build / "bin/guests/profiled", way, str(STEPS), *map(str, pauses)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        return (done.returncode, done.stdout, done.stderr), [line.split() for line in got.read_text().splitlines()]

    return run


def events(lines):
    """What a profiler's user sees, without what differs from run to run: the times of the day, where counting began."""
    first = min((int(words[1]) for words in lines if words[0] in ("kernel", "copy", "memset", "api", "sync")), default=0)
    result = []
    for words in lines:
        if words[0] in ("kernel", "copy", "memset"):
            duration = int(words[4]) - int(words[3])
            result.append((words[0], int(words[1]) - first, words[2], duration, *words[5:]))
        elif words[0] in ("api", "sync"):
            result.append((words[0], int(words[1]) - first, *words[2:]))
        else:
            result.append(tuple(words))
    return Counter(result)


def states(trace):
    return [row["text"] for row in trace.tables["Source"] if row["name"] == "cupti"]


# "callbacks" subscribes with a name, which there is from 13.0 on.
@pytest.mark.parametrize("way, release", [(way, release) for way in WAYS for release in RELEASES if way != "callbacks" or release >= 130000])
def test_the_profiler_gets_what_it_gets_without_us(profiled, way, release):
    device = f"cupti_api_version {release}\n"
    plain, without = profiled(way, 0, 0, device=device, injected=False)
    with_us, got = profiled(way, 0, 0, device=device)
    assert plain == with_us == (0, "done\n", "")
    # The second part of a kineto that goes on numbering begins later by the steps between, the same in both runs.
    assert events(got) == events(without)
    assert not [line for line in got if line[0] == "error"]
    counted = Counter(line[0] for line in got)
    if way == "callbacks":
        assert counted["call"] > 2 * STEPS * KERNELS_A_STEP
    else:
        assert counted["kernel"] == 2 * STEPS * KERNELS_A_STEP


@pytest.mark.parametrize("way", WAYS)
def test_recording_goes_on_afterwards(profiled, gpuwatch, run_dir, tmp_path, way):
    outcome, got = profiled(way, 2500, 2500)
    assert outcome == (0, "done\n", "")
    assert not [line for line in got if line[0] == "error"]
    trace, truth = DeviceTrace(run_dir), Truth(tmp_path / "truthTrue")
    holder = "call counter" if way == "callbacks" else "torch.profiler"
    assert states(trace) == ["on", f"yielded to {holder}", "on", f"yielded to {holder}", "on"]
    # What a profiler found running when it came is all that may be lost.
    assert sum(trace.lost.values()) <= 2 * (KERNELS_A_STEP + 2), trace.lost
    # What was launched with a correlation id has its record: once, with the device's times.
    did = {op["corr"]: op for op in truth.of_kind("kernel")}
    seen = trace.of_kind("kernel")
    assert len({op.correlation for op in seen}) == len(seen) > STEPS * KERNELS_A_STEP
    for op in seen:
        logged = did[op.correlation]
        assert op.end_ns - op.start_ns == pytest.approx(logged["end"] - logged["start"], abs=1)
        assert op.name == logged["name"]
    launched = {call.a for call in trace.calls if "Launch" in call.name and call.a}
    missing = launched - {op.correlation for op in seen}
    assert len(missing) <= sum(trace.lost.values())
    # In each of the two gaps the profiler had its steps.
    profiled_ids = {int(line[1]) for line in got if line[0] == "kernel"}
    assert not profiled_ids & {op.correlation for op in seen}
    # The report says who had CUPTI, and claims nothing of the device for that time.
    done = subprocess.run([gpuwatch, "analyze", run_dir, "--json"], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    said = report["coverage"]["sources"]["cupti"]
    assert said.startswith("yielded ") and said.endswith(f" s to {holder}")
    assert any(said in sentence for sentence in report["limits"])
    (rank,) = report["ranks"]
    hidden_s = sum(row["seconds"] for row in rank["attribution"] if row["category"] == "device.unobserved")
    assert hidden_s > 0
    assert report["coverage"]["launches_without_record"] == len(missing)


def test_held_from_the_start(profiled, workloads, build, sim_lib, injected_environment, run_dir, tmp_path):
    """A profiler that was there first keeps its place, and nothing is said of the device."""
    got = {}
    for injected in (False, True):
        preload = f"{build / 'lib/guests/libtorch_stand_in.so'}"
        if injected:
            preload = f"{injected_environment['LD_PRELOAD']}:{preload}"
        environment = {
            **injected_environment,
            "LD_PRELOAD": preload,
            "LD_LIBRARY_PATH": f"{sim_lib}:{build / 'lib/guests'}",
            "OTHER_PROFILER_OUT": str(tmp_path / f"profiler{injected}"),
            "OTHER_PROFILER_WHOLE_RUN": "kineto",
        }
        done = subprocess.run(
            [workloads / "sync_each_step", "--steps", "20"], env=environment, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")
        got[injected] = events(line.split() for line in (tmp_path / f"profiler{injected}").read_text().splitlines())
    assert got[True] == got[False]
    trace = DeviceTrace(run_dir)
    assert states(trace) == ["held by torch.profiler"]
    assert trace.ops == []


# TensorFlow's and JAX's names for where a profile begins and ends, around a profiler whose CUPTI calls go past every
# interposed symbol, as theirs do: RTLD_DEEPBIND binds them to libcupti itself.
MODULES = {
    "tensorflow/python/profiler/profiler_v2.py": ("start", "stop"),
    "jax/_src/profiler.py": ("start_trace", "stop_trace"),
}
MODULE = """
import ctypes, os
_profiler = ctypes.CDLL("libtorch_stand_in.so", mode=os.RTLD_DEEPBIND | os.RTLD_LOCAL | os.RTLD_NOW)
_is_on = False
def {start}(log_dir):
    global _is_on
    if _is_on:
        raise RuntimeError("one profile at a time")
    _is_on = True
    _profiler._Z20other_profiler_startPKc(b"teardown")
def {stop}():
    global _is_on
    if not _is_on:
        raise RuntimeError("no profile")
    _is_on = False
    _profiler._Z19other_profiler_stopv()
"""
FILLS = 20
PROGRAM = f"""
import ctypes, sys, time
from jax._src import profiler as jax
from tensorflow.python.profiler import profiler_v2 as tf
runtime, memory = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
def work():
    for _ in range({FILLS}):
        assert runtime.cudaMemsetAsync(memory, 0, ctypes.c_size_t(4096), None) == 0
    assert runtime.cudaDeviceSynchronize() == 0
def refused(call, *args):
    try:
        call(*args)
    except RuntimeError:
        return
    sys.exit("a profiler did what it should refuse")
for start, stop in (tf.start, tf.stop), (jax.start_trace, jax.stop_trace):
    refused(stop)
    work()
    start("logs")
    refused(start, "logs")
    work()
    stop()
    until = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < until:
        work()
        time.sleep(0.02)
    work()
print("done")
"""


@pytest.fixture
def profiled_by_name(injected_environment, build, sim_lib, run_dir, tmp_path):
    """profiled_by_name(pause in s, env) -> what the profiler got"""
    for path, (start, stop) in MODULES.items():
        module = tmp_path / "packages" / path
        module.parent.mkdir(parents=True)
        for package in (tmp_path / "packages" / path).relative_to(tmp_path / "packages").parents:
            if package.name:
                (tmp_path / "packages" / package / "__init__.py").touch()
        module.write_text(MODULE.format(start=start, stop=stop))

    def run(pause_s, **env):
        environment = {
            **injected_environment,
            "LD_LIBRARY_PATH": f"{sim_lib}:{build / 'lib/guests'}",
            "PYTHONPATH": str(tmp_path / "packages"),
            "OTHER_PROFILER_OUT": str(tmp_path / "profiler"),
            **env,
        }
        command = [sys.executable, "-c", PROGRAM, str(pause_s)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
        return [line.split() for line in (tmp_path / "profiler").read_text().splitlines()]

    return run


def test_profilers_of_tensorflow_and_jax_are_seen_coming(profiled_by_name, run_dir):
    got = profiled_by_name(2.5)
    assert not [line for line in got if line[0] == "error"]
    profiled_ids = {int(line[1]) for line in got if line[0] == "memset"}
    assert len(profiled_ids) == 2 * FILLS
    trace = DeviceTrace(run_dir)
    assert states(trace) == ["on", "yielded to TensorFlow's profiler", "on", "yielded to JAX's profiler", "on"]
    seen = {op.correlation for op in trace.of_kind("memset")}
    assert len(seen) > 4 * FILLS and not seen & profiled_ids


def test_without_python_they_find_cupti_taken(profiled_by_name):
    got = profiled_by_name(0, GPUWATCH_TRACE="cuda,cupti")
    assert [line for line in got if line[:2] == ["error", "39"]]
