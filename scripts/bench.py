#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what gpuwatch costs, on this machine, and writes docs/performance.md.

    scripts/bench.py                 all sections
    scripts/bench.py hooks startup   some of them, printed only

Absolute times differ from machine to machine, so every figure is a difference or a ratio of two things that were
measured in the same run, alternating, with its spread (lowest, median, highest). The build is build/release, or
GPUWATCH_BUILD.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("GPUWATCH_BUILD", ROOT / "build/release")).resolve()
LIBRARY = BUILD / "lib/libgpuwatch.so"
REPORT = ROOT / "docs/performance.md"
TRUE = shutil.which("true") or "/bin/true"


def clean_environment(**settings):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUWATCH_", "GWSIM_", "LD_"))}
    return {**kept, **{k: str(v) for k, v in settings.items()}}


def injected(**settings):
    return clean_environment(LD_PRELOAD=LIBRARY, **settings)


class Spread:
    """Lowest, median and highest of repeated measurements."""

    def __init__(self, values):
        self.values = sorted(values)

    @property
    def median(self):
        return statistics.median(self.values)

    def text(self, digits=1, unit=""):
        low, high = self.values[0], self.values[-1]
        return f"{self.median:.{digits}f}{unit} ({low:.{digits}f} to {high:.{digits}f})"


def table(header, rows):
    lines = [" | ".join(header), " | ".join("---" for _ in header), *(" | ".join(map(str, row)) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)


class Finished:
    """A command that succeeded: wall and CPU seconds, and the most memory it was seen to use."""

    def __init__(self, command, environment):
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.rss_kib = {"VmHWM": 0, "RssAnon": 0}
        status = None
        while status is None:
            # Not ru_maxrss: that of a child begins with what this program had when it forked.
            self.look_at_memory(process.pid)
            pid, ended, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                status = ended
            else:
                time.sleep(0.002)
        self.seconds = time.perf_counter() - began
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            complaint = process.stderr.read().decode()
            sys.exit(f"bench: {' '.join(map(str, command))} ended with {process.returncode}:\n{complaint}")
        process.stderr.close()

    def look_at_memory(self, pid):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        for line in status.splitlines():
            name, _, value = line.partition(":")
            if name in self.rss_kib:
                self.rss_kib[name] = max(self.rss_kib[name], int(value.split()[0]))


def cpu_ms(environment):
    """CPU time of `true` in ms."""
    process = subprocess.Popen([TRUE], env=environment)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return (usage.ru_utime + usage.ru_stime) * 1e3


# --- what a hooked call costs ------------------------------------------------------------------------------------


def hook_cost(mode, environment, arguments=()):
    """{function: Spread of ns that the hook adds}; CPU time of the thread, because the machine may be busy."""
    command = [BUILD / "bin/bench/hook_cost", *arguments, "--benchmark_format=json"]
    done = subprocess.run([str(w) for w in command], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: hook_cost ({mode}) ended with {done.returncode}:\n{done.stderr}")
    times = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        if row["run_type"] == "iteration":
            name, how = row["name"].split("/")[:2]
            times.setdefault(name, {}).setdefault(how, []).append(row["cpu_time"])
    return {
        name: Spread(hooked - statistics.median(both["direct"]) for hooked in both["hooked"])
        for name, both in times.items()
    }


def bench_hooks(scratch):
    off = hook_cost("off", injected(GPUWATCH_DISABLE=1))
    dormant = hook_cost("dormant", injected(GPUWATCH_OUT=scratch / "dormant"), ["--calls=waits"])
    recording = hook_cost("recording", injected(GPUWATCH_OUT=scratch / "hooks", GPUWATCH_TRACE="cuda,io"))
    rows = [
        ["CUDA launch, recorded (24 bytes)", recording["launch"].text(), 50],
        ["CUDA copy, recorded with its detail (48 bytes)", recording["copy"].text(), 50],
        ["wait that does not block: timed, below the threshold", recording["semaphore"].text(), 25],
        ["read of nothing: timed and counted, below the threshold", recording["read"].text(), 25],
        ["the same wait in a dormant process", dormant["semaphore"].text(), 5],
        ["the same wait, GPUWATCH_DISABLE=1", off["semaphore"].text(), 5],
        ["CUDA launch, GPUWATCH_DISABLE=1", off["launch"].text(), 5],
        ["CUDA copy, GPUWATCH_DISABLE=1", off["copy"].text(), 5],
    ]
    launch = recording["launch"].median
    return f"""## A hooked call

Nanoseconds that the hook adds to a call of the thread's own CPU time: median (lowest to highest) of nine repetitions of 400 000
calls, against the same function called directly in the same run. Writing the trace's pages is included.

{table(["call", "ns added", "goal"], rows)}

A step of 10 000 kernels of 5 us each, launched one by one, so takes {launch * 10_000 / 50e6:.1%} longer on the host
(10 000 calls x {launch:.0f} ns over 50 ms): computed, not timed. What CUPTI itself adds to a launch comes on top and was
not measured: no GPU at hand.
"""


# --- a process that is none of ours ------------------------------------------------------------------------------


def user_instructions(environment):
    """Instructions of `true` in user mode, or None where the machine does not count them."""
    if not shutil.which("perf"):
        return None
    done = subprocess.run(
        ["perf", "stat", "-x,", "-e", "instructions:u", "-r", "5", TRUE], env=environment, capture_output=True, text=True
    )
    value = done.stderr.split(",")[0].split("\n")[-1]
    return int(value) if value.isdigit() else None


def bench_startup(scratch, pairs=200):
    plain, loaded = clean_environment(), injected(GPUWATCH_OUT=scratch / "startup")
    times = [(cpu_ms(plain), cpu_ms(loaded)) for _ in range(pairs)]
    added = sorted(b - a for a, b in times)
    ratio = statistics.median(b for _, b in times) / statistics.median(a for a, _ in times)
    without, with_library = user_instructions(plain), user_instructions(loaded)
    instructions = (
        f"Instructions in user mode: {without:,} without, {with_library:,} with the library."
        if without and with_library
        else "This machine does not count instructions."
    )
    files = "no file was written" if not (scratch / "startup").exists() else "A FILE WAS WRITTEN"
    return f"""## A dormant process

`true`, {pairs} times with and {pairs} times without the library, alternating: {statistics.median(added):.2f} ms more CPU time at the
median (quartiles {added[len(added) // 4]:.2f} to {added[len(added) * 3 // 4]:.2f}), {ratio:.2f} times the time without
(goal: at most 1 ms, no file); {files}.
{instructions}
"""


# --- a job on the simulated device -------------------------------------------------------------------------------


def simulated(environment):
    return {**environment, "LD_LIBRARY_PATH": str(BUILD / "lib/sim")}


def bench_job(scratch, pairs=7):
    command = [BUILD / "bin/workloads/launch_bound", "--steps", 40, "--operations", 1000]
    ratios, memory = [], []
    for n in range(pairs):
        alone = Finished(command, simulated(clean_environment()))
        seen = Finished(command, simulated(injected(GPUWATCH_OUT=scratch / f"job{n}")))
        ratios.append((seen.seconds / alone.seconds - 1) * 100)
        memory.append((seen.rss_kib["VmHWM"] - alone.rss_kib["VmHWM"]) / 1024)
    return f"""## A job on the simulated device

`{command[0].name}` (40 steps, 1001 kernels of 5 us each, launched one by one), {pairs} pairs, alternating. Calls are timed
against a software device here, so this shows the recorder and the CUPTI session's own work, not CUPTI's.

{table(["", "median (lowest to highest)", "goal"], [
    ["wall time with all sources on", Spread(ratios).text(2, " %"), "2 %"],
    ["memory (largest resident set, the trace's shared pages included)", Spread(memory).text(1, " MiB"), "64 MiB"],
])}
"""


# --- a job that waits for its loader -----------------------------------------------------------------------------

LOADER_STEP_GOAL = 0.4  # percent of a step


def loader_job(batches, service_ms, think_ms):
    """A training loop around a DataLoader. Batches cost a known time, asleep: the CPU time is the loader's own."""
    script = ROOT / "tests/groundtruth/programs/timed_loader.py"
    options = {"--workers": 2, "--prefetch": 2, "--batches": batches, "--service-ms": service_ms, "--think-ms": think_ms}
    return [sys.executable, script, *(word for option in options.items() for word in option)]


class Counted:
    """What a command used with all its processes: instructions in user mode (None where nothing counts them), CPU time of
    user and kernel, and wall time."""

    def __init__(self, command, environment, scratch):
        counts = scratch / "perf"
        count = ["perf", "stat", "-x,", "-e", "instructions:u", "-o", counts, "--"] if shutil.which("perf") else []
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        words = [str(word) for word in [*count, "env", *(f"{k}={v}" for k, v in environment.items()), *command]]
        done = subprocess.run(words, env=clean_environment(), capture_output=True, text=True)
        self.seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"bench: {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        self.cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        lines = counts.read_text().splitlines() if count else []
        found = [line.split(",")[0] for line in lines if "instructions" in line]
        self.instructions = int(found[0]) if found and found[0].isdigit() else None


@dataclass
class Batch:
    """What a batch costs."""

    instructions: float | None
    cpu_us: float
    wall_us: float


def cost_of_a_batch(settings, scratch, few, many, **costs):
    """A long run less a short one, so that start-up cancels."""
    short, long = (Counted(loader_job(batches, **costs), settings, scratch) for batches in (few, many))
    batches = many - few
    instructions = None if None in (short.instructions, long.instructions) else (long.instructions - short.instructions) / batches
    cpu_us = (long.cpu_seconds - short.cpu_seconds) * 1e6 / batches
    return Batch(instructions, cpu_us, (long.seconds - short.seconds) * 1e6 / batches)


@dataclass
class LoaderPairs:
    """The same job without and with the library, alternating."""

    alone: list
    seen: list
    directory: Path  # traces of the first pair

    def added(self, what):
        return [getattr(b, what) - getattr(a, what) for a, b in zip(self.alone, self.seen)]

    def mean_alone(self, what):
        return statistics.mean(getattr(batch, what) for batch in self.alone)

    def instructions(self):
        if any(batch.instructions is None for batch in self.alone + self.seen):
            return "not counted on this machine"
        return f"{interval(self.added('instructions'))} of {self.mean_alone('instructions'):.0f}"


def loader_pairs(scratch, pairs, few, many, **costs):
    alone, seen = [], []
    name = "-".join(map(str, costs.values()))
    for n in range(pairs):
        settings = {"LD_PRELOAD": LIBRARY, "GPUWATCH_OUT": scratch / f"{name}.{n}"}
        alone.append(cost_of_a_batch({}, scratch, few, many, **costs))
        seen.append(cost_of_a_batch(settings, scratch, few, many, **costs))
        if n:
            shutil.rmtree(settings["GPUWATCH_OUT"])
    return LoaderPairs(alone, seen, scratch / f"{name}.0")


def calls_of_a_batch(directory, batches):
    """{kind of call: times a batch}, of a recorded run; read independently of the analyzer."""
    sys.path.insert(0, str(ROOT / "tests/python"))
    import raw_trace

    times = {}
    for call in raw_trace.read_run(directory).all_calls:
        times[call.op_class] = times.get(call.op_class, 0) + 1
    return {kind: count / batches for kind, count in times.items() if count >= batches / 4}


def interval(values, digits=0):
    """Mean with its 95 % confidence interval, by Student's t."""
    t = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 11: 2.23, 15: 2.14}[len(values)]
    half = t * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.{digits}f} ± {half:.{digits}f}"


def bench_loader(scratch, pairs=9):
    few, many = 50, 600
    asleep = loader_pairs(scratch, pairs, few, many, service_ms=16, think_ms=4)
    # Batches that cost nothing: no sleep whose length varies hides what is added.
    empty = loader_pairs(scratch, pairs, 500, 5000, service_ms=0, think_ms=0)
    calls = calls_of_a_batch(asleep.directory, few + many)  # both runs of a pair wrote into one directory
    more_calls = sum(calls.values()) - sum(calls_of_a_batch(empty.directory, 5500).values())
    listed = ", ".join(f"{times:.1f} {kind}" for kind, times in sorted(calls.items(), key=lambda item: -item[1]))
    step_us = asleep.mean_alone("wall_us")
    call_ns = hook_cost("recording", injected(GPUWATCH_OUT=scratch / "hooks", GPUWATCH_TRACE="cuda,io"))["copy"].median
    computed = [(us + more_calls * call_ns / 1e3) / step_us * 100 for us in empty.added("cpu_us")]
    wall = [(b.wall_us / a.wall_us - 1) * 100 for a, b in zip(asleep.alone, asleep.seen)]
    rows = [
        ["empty batches: instructions added a batch, user mode", empty.instructions(), ""],
        ["empty batches: CPU time added a batch, user and kernel", f"{interval(empty.added('cpu_us'), 1)} us of {empty.mean_alone('cpu_us'):.0f}", ""],
        [f"that and {more_calls:.0f} recorded calls more, of {call_ns:.0f} ns each, of a step of {step_us / 1e3:.1f} ms", f"{interval(computed, 2)} %", f"{LOADER_STEP_GOAL} %"],
        ["batches of 16 ms: instructions added a batch", asleep.instructions(), ""],
        ["batches of 16 ms: CPU time added a batch", f"{interval(asleep.added('cpu_us'))} us of {asleep.mean_alone('cpu_us'):.0f}", ""],
        ["batches of 16 ms: wall time added to a step", f"{interval(wall, 2)} %", ""],
    ]
    return f"""## A job that waits for its loader

PyTorch's DataLoader with 2 workers and a training loop; all processes together, a long run less a short one so that start-up cancels,
{pairs} pairs with and without the library, alternating; means with their 95 % confidence intervals. Once with batches that cost nothing,
which shows what a batch costs us; once with batches of 4 samples that sleep for 4 ms each and steps that sleep for 4 ms, a step of
{step_us / 1e3:.1f} ms. Two of three processes are workers, whose cost is hidden where another bound is nearer: CPU time over
the step is the most that a step can get longer. Recorded a batch of the second kind: {listed}.

{table(["", "measured", "goal"], rows)}
"""


# --- the analyzer ------------------------------------------------------------------------------------------------


def used_bytes(directory):
    """Bytes of trace that were claimed; the rest of a file is reserved space that reads as zeros."""
    return sum(path.stat().st_blocks * 512 for path in Path(directory).glob("*.gwt"))


def bench_analyzer(scratch, repetitions=5):
    directory = scratch / "long"
    command = [BUILD / "bin/workloads/launch_bound", "--steps", 400, "--operations", 1000, "--dispatch-us", 0]
    Finished(command, simulated(injected(GPUWATCH_OUT=directory)))
    analyze = [BUILD / "bin/gpuwatch", "analyze", directory, "--json"]
    done = subprocess.run([str(w) for w in analyze], env=clean_environment(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: gpuwatch analyze ended with {done.returncode}:\n{done.stderr}")
    events = json.loads(done.stdout)["trace"]["events"]
    runs = [Finished(analyze, clean_environment()) for _ in range(repetitions)]
    cpu = Spread(events / run.cpu_seconds / 1e6 for run in runs)
    bytes_used = used_bytes(directory)
    memory = max(run.rss_kib["RssAnon"] for run in runs) * 1024
    return f"""## The trace and the analyzer

`gpuwatch analyze --json` of a run with {events:,} events ({bytes_used / 2**20:.0f} MiB).

{table(["", "measured", "goal"], [
    ["events a second of CPU time, millions", cpu.text(2), 20],
    ["bytes of trace an event, all included", f"{bytes_used / events:.1f}", 24],
    ["anonymous memory over trace size", f"{memory / bytes_used:.2f}", 0.5],
])}
"""


SECTIONS = {"hooks": bench_hooks, "startup": bench_startup, "job": bench_job, "loader": bench_loader, "analyzer": bench_analyzer}


def machine():
    """The machine in one sentence."""
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "unknown CPU")
    virtual = " (virtual machine)" if " hypervisor" in info else ""
    clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    source = clock.read_text().strip() if clock.exists() else "unknown"
    return (
        f"{model}{virtual}, {os.cpu_count()} CPUs, Linux {os.uname().release}, clock source {source}; "
        f"load average before: {os.getloadavg()[0]:.1f}."
    )


def main():
    chosen = sys.argv[1:] or list(SECTIONS)
    if unknown := [name for name in chosen if name not in SECTIONS]:
        sys.exit(f"bench: no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if not LIBRARY.exists():
        sys.exit(f"bench: {LIBRARY} does not exist; run `make build`")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parts = [
        "<!-- SPDX-License-Identifier: Apache-2.0 -->\n# Performance\n",
        f"Written by `make bench` on {date.today()}. Machine: {machine()}\n\n"
        "Figures of a GPU (what CUPTI adds to a launch, device memory) are not measured here; those of the acceptance run on\n"
        "machines that have one are in [gpu-results](gpu-results/README.md).\n",
    ]
    for name in chosen:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="gpuwatch-bench-") as scratch:
            parts.append(SECTIONS[name](Path(scratch)))
    text = "\n".join(parts)
    print(text)
    if chosen == list(SECTIONS):
        REPORT.write_text(text)
        print(f"bench: wrote {REPORT.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
