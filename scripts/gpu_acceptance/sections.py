# SPDX-License-Identifier: Apache-2.0
"""The questions of the acceptance run that programs built by nvcc answer, on a GPU or on the simulated device.

A part is a generator of figures. Figures that it yielded count even if it then raises NotRun or Failed.
"""

import json
import shutil
import statistics
import sys

from rig import BUILD, LIBRARY, Figure, NotRun, Recording, alternate, cost_figures, device_name, expect, spread, step_ms

# Up to 10 us between kernels are a launch gap (docs/attribution.md): timestamps that are wrong by twice as much would change
# the attribution.
OUTSIDE_US = 20


# --- environment -------------------------------------------------------------------------------------------------------


def machine(rig):
    yield Figure("GPU", device_name(rig.simulated))
    if shutil.which("nvidia-smi") and not rig.simulated:
        fields = "driver_version,memory.total,pcie.link.gen.max,clocks.max.sm"
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
        said = rig.run(command, rig.environment(runtime=False)).stdout.splitlines()[0].split(", ")
        for what, value in zip(("driver", "memory", "PCIe generation", "highest SM clock"), said):
            yield Figure(what, value)
    yield Figure("Python", sys.version.split()[0])


def sources(rig):
    run = rig.workload("sync_each_step", "--steps", 30, recorded=True)
    yield Figure("CUDA runtime", run.report["versions"]["cuda"])
    yield Figure("CUDA of the driver", run.report["versions"]["driver"])
    for name, state in run.sources.items():
        yield Figure(f"source {name}", state)
    closed = [name for name in ("cuda", "cupti", "io", "system") if run.sources.get(name) != "on"]
    expect(not closed, f"sources that are not on: {', '.join(closed)}")


def doctor(rig):
    for line in rig.run([BUILD / "bin/gpuwatch", "doctor"], rig.analyzer_environment()).stdout.splitlines():
        topic, _, said = line.partition(" ")
        yield Figure(f"doctor: {topic}", said.strip())


# --- launches ----------------------------------------------------------------------------------------------------------


def complete(name, run):
    """Figures of a recording, and the checks that each must pass."""
    report = run.report
    matched, lost = report["coverage"]["launches_matched_share"], report["trace"]["lost_events"]
    yield Figure(f"{name}: launches with a kernel", None if matched is None else matched * 100, "%")
    yield Figure(f"{name}: dropped records", lost)
    missing = run.rank["wall_ns"] - sum(row["ns"] for row in run.rank["attribution"])
    yield Figure(f"{name}: wall time minus the sum of its causes", missing, "ns")
    expect(missing == 0, f"{name}: the causes do not sum to the wall time")
    expect(lost == 0, f"{name}: records were dropped")
    expect(matched is not None and matched >= 0.99, f"{name}: launches without a kernel")


def whole_workloads(rig):
    for name in ("healthy", "sync_each_step", "pageable_copy", "exposed_copy", "two_streams"):
        yield from complete(name, rig.workload(name, "--steps", rig.pick(200, 40), recorded=True))


def counted_kernels(rig):
    """Every kernel that the program launched is in the trace, which is read here without the analyzer."""
    steps, operations = rig.pick(50, 20), rig.pick(2000, 400)
    run = rig.workload("launch_bound", "--steps", steps, "--operations", operations, recorded=True)
    yield from complete("launch_bound", run)
    kernels = len(run.device_trace().of_kind("kernel"))
    yield Figure("launch_bound: kernels launched", steps * (operations + 1))
    yield Figure("launch_bound: kernels in the trace", kernels)
    expect(kernels == steps * (operations + 1), "the numbers of kernels in the trace and of launched kernels differ")


# --- cost --------------------------------------------------------------------------------------------------------------


def tiny_kernels(rig, dispatch_us):
    steps, operations = rig.pick(20, 12), rig.pick(10000, 500)
    arguments = ["launch_bound", "--steps", steps, "--operations", operations, "--dispatch-us", dispatch_us]

    def step(recorded):
        return step_ms(rig.workload(*arguments, recorded=recorded).phases, skip=3)

    step(False)  # the first process fills caches for the later ones
    pairs = alternate(rig.pick(9, 3), lambda: step(False), lambda: step(True))
    name = f"{operations} kernels a step, {dispatch_us} us of dispatch each"
    yield from cost_figures(name, pairs, operations + 1)


def calls_back_to_back(rig):
    yield from tiny_kernels(rig, 0)


def calls_as_dispatched(rig):
    yield from tiny_kernels(rig, 5)


# --- after recording stopped -------------------------------------------------------------------------------------------

BUDGET_LAUNCHES = 100_000  # 4 MiB of 48 bytes and more
FLUSH_PERIOD_NS = 1_000_000_000  # the session is closed by the thread that fetches records, once a second


def after_the_budget(rig):
    """Recording stops at 4 MiB, after about 80 000 launches. Measures steps from two seconds later on."""
    steps = BUDGET_LAUNCHES // 1000 + 250  # doubled until the program is long enough

    def late_steps(phases, from_ns):
        late = [p for p in phases if p["phase"] == "step" and p["begin"] > from_ns]
        return statistics.median(p["end"] - p["begin"] for p in late) / 1e6 if len(late) > 10 else None

    pairs, stopped_at = [], []
    while len(pairs) < rig.pick(4, 1):
        arguments = ["launch_bound", "--operations", 1000, "--steps", steps]
        plain = rig.workload(*arguments)
        run = rig.workload(*arguments, recorded=True, GPUWATCH_MAX_SIZE="4MiB")
        stopped = max(call.end_ns for call in run.device_trace().calls)
        begin = run.phases[0]["begin"]
        stopped_at.append((stopped - begin) / 1e9)
        late = stopped + 2 * FLUSH_PERIOD_NS
        off, on = late_steps(plain.phases, plain.phases[0]["begin"] + late - begin), late_steps(run.phases, late)
        if off and on:
            pairs.append((off, on))
        else:
            steps *= 2
            stopped_at.pop()
    yield spread("recording stopped after", stopped_at, "s")
    yield from cost_figures("1000 kernels a step, recording stopped", pairs, 1001)


def bytes_an_event(rig):
    import raw_trace

    run = rig.workload("launch_bound", "--steps", rig.pick(60, 30), "--operations", 1000, recorded=True)
    (path,) = run.directory.glob("*.gwt")
    data = path.read_bytes()
    reader = raw_trace.FileReader(path)
    used = sum(int.from_bytes(data[place : place + 4], "little") + 4 for _, place in raw_trace.walk_frames(data))
    device = [slot for _, _, slot, *_ in reader.slots if slot[0] != 1]
    yield Figure("bytes for a launch with its kernel, everything included", used / len(device), "bytes")
    yield Figure("bytes for an event", used / len(reader.slots), "bytes")
    yield Figure("events", len(reader.slots))


# --- timestamps -------------------------------------------------------------------------------------------------------


def against_events(rig):
    run = rig.workload("event_pairs", "--pairs", rig.pick(300, 40), recorded=True)
    pairs = [json.loads(line) for line in run.stdout.splitlines()]
    kernels = run.device_trace().of_kind("kernel")[1:]  # without the one that loads the code
    expect(len(kernels) == len(pairs), f"{len(pairs)} kernels were launched, {len(kernels)} are in the trace")
    elapsed = [p["elapsed_us"] - (k.end_ns - k.start_ns) / 1e3 for p, k in zip(pairs, kernels)]
    offsets = [p["since_first_us"] - (k.start_ns - kernels[0].start_ns) / 1e3 for p, k in zip(pairs, kernels)]
    yield spread("events around a kernel minus its recorded duration", elapsed, "us")
    yield Figure("the largest of them", max(elapsed, key=abs), "us")
    yield spread("events since the first kernel minus recorded start", offsets[1:], "us")
    yield Figure("the largest of them", max(offsets, key=abs), "us")
    early = [(p["launched_ns"] - k.start_ns) / 1e3 for p, k in zip(pairs, kernels)]
    late = [(k.end_ns - p["finished_ns"]) / 1e3 for p, k in zip(pairs, kernels)]
    outside = max(0.0, *early, *late)
    yield Figure("largest distance of a kernel outside the calls around it, on the host's clock", outside, "us")
    yield spread("from the launch to the kernel's start", [-us for us in early], "us")
    yield spread("from the kernel's end to the return of the synchronization", [-us for us in late], "us")
    yield Figure("clock error in the report", run.report["trace"].get("clock_error_ns"), "ns")
    expect(outside <= OUTSIDE_US, f"a kernel lies {outside:.1f} us outside the calls that enclose it")


# --- findings ----------------------------------------------------------------------------------------------------------

# Stall -> (program with the stall, program with the remedy, the finding with this remedy). These are the first findings on
# the simulated device. Kernels are shorter on a GPU, so another finding may come first there.
CASES = {
    "pageable copies": (["pageable_copy", "--batch-mib", 32], ["exposed_copy", "--batch-mib", 32], "pin-memory"),
    "exposed copies": (
        ["exposed_copy", "--batch-mib", 64],
        ["trainer", "--batch-mib", 64, "--pin", 1, "--workers", 2, "--read-ms", 0, "--decode-ms", 0],
        "blocking-copy",
    ),
    "a synchronization each step": (["sync_each_step"], ["sync_each_step", "--every", 50], "sync-per-step"),
    "launch-bound": (["launch_bound", "--dispatch-us", 10], ["launch_bound", "--graph"], "launch-bound"),
    "allocation each step": (["malloc_each_step"], ["malloc_each_step", "--workspaces", 0], "allocator-churn"),
    "small batch": (["small_batch", "--batch", 8], ["small_batch", "--batch", 32], "small-batch"),
}  # fmt: skip


def judged(case, report, achieved, wanted, samples=None):
    """The findings, and the effect of the remedy of the finding `wanted`. `achieved`: step times in ms with the remedy, not
    recorded; `samples`: samples of a step with the remedy."""
    complaints = [finding for finding in report["findings"] if finding["severity"] != "info"]
    ids = [finding["id"] for finding in complaints]
    yield Figure(f"{case}: findings, first to last", ", ".join(ids) or f"none ({report['verdict']['id']})")
    yield Figure(f"{case}: step before", report["ranks"][0]["steps"]["mean_ms"], "ms")
    result = spread(f"{case}: step with the remedy", achieved, "ms")
    yield result
    if ids[:1] != [wanted]:
        # The prediction of a later finding builds on the first, which was not applied.
        yield Figure(f"{case}: prediction", f"not compared: {wanted or 'a finding for this stall'} is not the first one")
        return
    prediction, ceiling = complaints[0]["prediction"], complaints[0]["ceiling"]
    if not prediction:
        yield Figure(f"{case}: prediction", f"none, up to {ceiling['speedup']:.2f}x" if ceiling else "none")
        return
    yield from compared(case, prediction, result.value, samples)


def compared(case, prediction, achieved_ms, samples):
    is_time = prediction["metric"] == "step_ms"
    expect(is_time or samples, f"{case}: the prediction is in samples/s, but the samples of a step are unknown")
    reached = achieved_ms if is_time else samples * 1e3 / achieved_ms
    low, expected, high = (prediction[key] for key in ("low", "expected", "high"))
    yield Figure(f"{case}: predicted, with its interval", expected, "ms" if is_time else "samples/s", low, high)
    yield Figure(f"{case}: error of the prediction", (expected / reached - 1) * 100, "%")
    yield Figure(f"{case}: inside the predicted interval", "yes" if low <= reached <= high else "no")


def case_part(case):
    stall, remedy, wanted = CASES[case]

    def part(rig):
        steps = ["--steps", rig.pick(300, 60)]
        settings = {"GWSIM_CONFIG": config_of(stall[0])} if rig.simulated else {}
        run = rig.workload(*stall, *steps, recorded=True, **settings)
        achieved = [step_ms(rig.workload(*remedy, *steps, **settings).phases) for _ in range(rig.pick(3, 1))]
        samples = remedy[remedy.index("--batch") + 1] if "--batch" in remedy else None
        yield from judged(case, run.report, achieved, wanted, samples)

    return part


def config_of(program):
    """Stall and remedy run on the same simulated device."""
    path = BUILD / f"bin/workloads/{program}.conf"
    return path if path.exists() else "/dev/null"


# --- how NVIDIA's libraries find a tool -------------------------------------------------------------------------------

DRIVER_ONLY = """
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
status = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0)
status = status or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or driver.cuCtxSetCurrent(context)
for _ in range(20):
    status = status or driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20))
    status = status or driver.cuMemsetD8_v2(memory, ctypes.c_ubyte(0), ctypes.c_size_t(1 << 20))
    status = status or driver.cuMemFree_v2(memory)
sys.exit(f"a driver call failed with {status}" if status else 0)
"""


def driver_asks(rig):
    """A program that calls only the driver: does it load gpuwatch because of the answer to getenv, or only with the variable?"""
    if b"CUDA_INJECTION64_PATH" not in LIBRARY.read_bytes():
        raise NotRun("this build of libgpuwatch.so does not answer getenv")
    program = rig.scratch / "driver_only.py"
    program.write_text(DRIVER_ONLY)
    ways = {
        "preloaded, variable unset": {"LD_PRELOAD": LIBRARY},
        "variable set, not preloaded": {"LD_PRELOAD": "", "CUDA_INJECTION64_PATH": LIBRARY},
    }
    for way, settings in ways.items():
        out = rig.new_folder("driver")
        rig.run([sys.executable, program], rig.environment(out, runtime=False, **settings))
        if not out.is_dir():
            yield Figure(f"driver calls only, {way}", "the driver did not load the library")
            continue
        trace = Recording(out, {}, [], "").device_trace()  # no training: the report has no sources
        states = [row["state"] for row in trace.tables["Source"] if row["name"] == "cupti"]
        yield Figure(f"driver calls only, {way}: source cupti", states[-1] if states else "none")
        yield Figure(f"driver calls only, {way}: recorded fills of 20", len(trace.of_kind("memset")))
