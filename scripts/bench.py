#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures gpuwatch's overhead on this machine and writes docs/performance.md.

    scripts/bench.py                         all sections
    scripts/bench.py hooks startup           some of them, printed only
    scripts/bench.py --write hooks startup   replace these sections of the page, keep the others

Absolute times differ from machine to machine, so every figure is a difference or a ratio of two measurements taken
alternately in the same run, with its spread (lowest, median, highest). The build is build/release or GPUWATCH_BUILD.
"""

import argparse
import json
import os
import re
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
    """A command that succeeded: wall and CPU seconds, and its peak memory."""

    def __init__(self, command, environment):
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.rss_kib = {"VmHWM": 0, "RssAnon": 0}
        status = None
        while status is None:
            # Not ru_maxrss: a child's starts with the size of this program at the fork.
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
            sys.exit(f"bench: {' '.join(map(str, command))} failed with status {process.returncode}:\n{complaint}")
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


# --- the overhead of a hooked call ------------------------------------------------------------------------------------


def hook_cost(mode, environment, arguments=()):
    """{function: Spread of ns that the hook adds}; CPU time of the thread, because the machine may be busy."""
    command = [BUILD / "bin/bench/hook_cost", *arguments, "--benchmark_format=json"]
    done = subprocess.run([str(w) for w in command], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: hook_cost ({mode}) failed with status {done.returncode}:\n{done.stderr}")
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
        ["empty read: timed and counted, below the threshold", recording["read"].text(), 25],
        ["the same wait in a dormant process", dormant["semaphore"].text(), 5],
        ["the same wait, GPUWATCH_DISABLE=1", off["semaphore"].text(), 5],
        ["CUDA launch, GPUWATCH_DISABLE=1", off["launch"].text(), 5],
        ["CUDA copy, GPUWATCH_DISABLE=1", off["copy"].text(), 5],
    ]
    launch = recording["launch"].median
    return f"""## A hooked call

CPU time in nanoseconds that the hook adds to a call: median (lowest to highest) of nine repetitions of 400 000 calls, compared
with the same function called directly in the same run. Writing the pages of the trace is included.

{table(["call", "ns added", "goal"], rows)}

So a step of 10 000 kernels of 5 us each, launched one by one, takes {launch * 10_000 / 50e6:.1%} longer on the host
(10 000 calls x {launch:.0f} ns / 50 ms): computed, not timed. CUPTI adds about 1.3 us to each launch as well (on an
H200, timed: [gpu-results](gpu-results/README.md)).
"""


# --- a process that does not train ------------------------------------------------------------------------------


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
median (quartiles {added[len(added) // 4]:.2f} to {added[len(added) * 3 // 4]:.2f}), {ratio:.2f}x the time without it
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

`{command[0].name}` (40 steps, 1001 kernels of 5 us each, launched one by one), {pairs} pairs, alternating. The device is
simulated, so this shows the overhead of the recorder and of gpuwatch's CUPTI session, not of CUPTI.

{table(["", "median (lowest to highest)", "goal"], [
    ["wall time with all sources on", Spread(ratios).text(2, "%"), "2%"],
    ["memory (peak resident set, including the shared pages of the trace)", Spread(memory).text(1, " MiB"), "64 MiB"],
])}
"""


# --- a job that waits for its loader -----------------------------------------------------------------------------

LOADER_STEP_GOAL = 0.4  # percent of a step
LOADER_ENVIRONMENT = {"OMP_NUM_THREADS": 1}  # the threads of a pool spin, for a number of instructions that varies


def loader_job(batches):
    """A training loop around a DataLoader. Batches cost a known time, asleep: the CPU time is the loader's own."""
    script = ROOT / "tests/groundtruth/programs/timed_loader.py"
    options = {"--workers": 2, "--prefetch": 2, "--batches": batches, "--service-ms": 16, "--think-ms": 4}
    return [sys.executable, script, *(word for option in options.items() for word in option)]


def run_loader(tool, batches, environment):
    setting = ["env", *(f"{name}={value}" for name, value in environment.items())]  # `tool` itself is not injected
    words = [str(word) for word in [*tool, *setting, *loader_job(batches)]]
    done = subprocess.run(words, env=clean_environment(**LOADER_ENVIRONMENT), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: {' '.join(words)} failed with status {done.returncode}:\n{done.stderr}")


@dataclass
class Run:
    """What all processes of a run used. Instructions are those of user mode, or None if the CPU does not count them."""

    wall_us: float
    instructions: int | None
    user_us: float


@dataclass
class Runs:
    """A long run and a short one: their difference is the cost of the batches, without start-up."""

    short: Run
    long: Run
    batches: int  # more in the long one

    def of_a_batch(self, what):
        return (getattr(self.long, what) - getattr(self.short, what)) / self.batches


def counted(batches, environment, scratch):
    counts = scratch / "perf"
    tool = ["perf", "stat", "-x,", "-e", "instructions:u", "-o", counts, "--"] if shutil.which("perf") else []
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run_loader(tool, batches, environment)
    seconds = time.perf_counter() - began
    user_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime
    lines = counts.read_text().splitlines() if tool else []
    found = [line.split(",")[0] for line in lines if "instructions" in line]
    return Run(seconds * 1e6, int(found[0]) if found and found[0].isdigit() else None, user_s * 1e6)


def prices():
    """{system call that the library makes in each batch: us}"""
    command = [BUILD / "bin/bench/system_calls", "--benchmark_format=json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    return {row["name"]: row["cpu_time"] / 1e3 for row in json.loads(done.stdout)["benchmarks"]}


def system_calls(batches, environment, scratch, kinds):
    """{kind: number} of a run with all its processes."""
    counts = scratch / "strace"
    run_loader(["strace", "-f", "-c", "--seccomp-bpf", "-e", "trace=" + ",".join(kinds), "-o", counts], batches, environment)
    rows = [line.split() for line in counts.read_text().splitlines()]
    found = {row[-1]: int(row[3]) for row in rows if row and row[-1] in kinds}
    return {kind: found.get(kind, 0) for kind in kinds}


def added_system_calls(recording, few, many, scratch, kinds):
    """{kind: number a batch}: with the library less without."""

    def of_a_batch(environment):
        short, long = (system_calls(batches, environment, scratch, kinds) for batches in (few, many))
        return {kind: (long[kind] - short[kind]) / (many - few) for kind in kinds}

    alone, seen = of_a_batch({}), of_a_batch(recording)
    return {kind: max(0.0, seen[kind] - alone[kind]) for kind in kinds}


def interval(values, digits=0):
    """Mean with its 95% confidence interval, by Student's t."""
    t = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 11: 2.23, 15: 2.14}[len(values)]
    half = t * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.{digits}f} ± {half:.{digits}f}"


def bench_loader(scratch, pairs=9, few=50, many=600):
    recording = {"LD_PRELOAD": LIBRARY, "GPUWATCH_OUT": scratch / "loader"}
    alone, seen = [], []
    for _ in range(pairs):
        for runs, environment in ((alone, {}), (seen, recording)):
            runs.append(Runs(*(counted(batches, environment, scratch) for batches in (few, many)), many - few))
            shutil.rmtree(scratch / "loader", ignore_errors=True)
    step_us = statistics.mean(runs.of_a_batch("wall_us") for runs in alone)
    wall = [(b.of_a_batch("wall_us") / a.of_a_batch("wall_us") - 1) * 100 for a, b in zip(alone, seen)]
    return f"""## A job that waits for its loader

PyTorch's DataLoader with 2 workers, batches of 4 samples that sleep for 4 ms each, and a training step that sleeps for 4 ms: a step of
{step_us / 1e3:.1f} ms. All processes together, a run of {many} batches minus one of {few} so that start-up cancels, with and without the
library, alternating, {pairs} pairs; means with 95% confidence intervals. Two of the three processes are workers, whose overhead is
hidden unless they are the bottleneck: the overhead divided by the step time is an upper bound for a longer step.

{table(["", "measured", "goal"], [
    *computed_cost(alone, seen, step_us, added_calls(recording, few, many, scratch)),
    ["wall time added to a step, timed", f"{interval(wall, 2)}%", ""],
])}
"""


def can_trace():
    """Whether strace works: containers often forbid it."""
    return bool(shutil.which("strace")) and subprocess.run(["strace", "-o", "/dev/null", TRUE], capture_output=True).returncode == 0


def added_calls(recording, few, many, scratch):
    """{kind: (number a batch, us of one)}, or None where they cannot be counted."""
    if not can_trace():
        return None
    price = prices()
    return {kind: (times, price[kind]) for kind, times in added_system_calls(recording, few, many, scratch, price).items()}


def computed_cost(alone, seen, step_us, calls):
    if calls is None or any(run.instructions is None for runs in alone + seen for run in (runs.short, runs.long)):
        return [["overhead, computed", "not counted: needs strace, perf and a CPU that counts instructions", f"{LOADER_STEP_GOAL}%"]]
    added = [b.of_a_batch("instructions") - a.of_a_batch("instructions") for a, b in zip(alone, seen)]
    of_one = statistics.mean(runs.long.user_us / runs.long.instructions for runs in alone)  # as fast as the job's own
    of_calls = sum(times * us for times, us in calls.values())
    listed = ", ".join(f"{times:.1f} {kind} of {us:.2f}" for kind, (times, us) in calls.items() if times >= 0.05)
    share = [(instructions * of_one + of_calls) / step_us * 100 for instructions in added]
    return [
        [f"instructions added per batch, user mode; the job takes {of_one * 1e6:.2f} us for a million", interval(added), ""],
        ["system calls added per batch, with the us of one; openat includes reading a file of procfs", listed, ""],
        [f"their CPU time, {statistics.mean(added) * of_one:.1f} and {of_calls:.1f} us, as a share of a step", f"{interval(share, 2)}%", f"{LOADER_STEP_GOAL}%"],
    ]


# --- the analyzer ------------------------------------------------------------------------------------------------


def used_bytes(directory):
    """Bytes of trace that were written; the rest of a file is reserved space that reads as zeros."""
    return sum(path.stat().st_blocks * 512 for path in Path(directory).glob("*.gwt"))


def bench_analyzer(scratch, repetitions=5):
    directory = scratch / "long"
    command = [BUILD / "bin/workloads/launch_bound", "--steps", 400, "--operations", 1000, "--dispatch-us", 0]
    Finished(command, simulated(injected(GPUWATCH_OUT=directory)))
    analyze = [BUILD / "bin/gpuwatch", "analyze", directory, "--json"]
    done = subprocess.run([str(w) for w in analyze], env=clean_environment(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: gpuwatch analyze failed with status {done.returncode}:\n{done.stderr}")
    events = json.loads(done.stdout)["trace"]["events"]
    runs = [Finished(analyze, clean_environment()) for _ in range(repetitions)]
    cpu = Spread(events / run.cpu_seconds / 1e6 for run in runs)
    bytes_used = used_bytes(directory)
    memory = max(run.rss_kib["RssAnon"] for run in runs) * 1024
    return f"""## The trace and the analyzer

`gpuwatch analyze --json` of a run with {events:,} events ({bytes_used / 2**20:.0f} MiB).

{table(["", "measured", "goal"], [
    ["million events per second of CPU time", cpu.text(2), 20],
    ["bytes of trace per event, all included", f"{bytes_used / events:.1f}", 24],
    ["anonymous memory / trace size", f"{memory / bytes_used:.2f}", 0.5],
])}
"""


HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Performance

Written by `make bench`. This page was measured without a GPU. Figures of the acceptance run on
machines with a GPU are in [gpu-results](gpu-results/README.md).

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
        f"load average before the run: {os.getloadavg()[0]:.1f}."
    )


def sections_of(page):
    """{heading: text} of a page's sections."""
    return {section.partition("\n")[0]: section for section in re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]}


def measured(name):
    print(f"bench: {name}", file=sys.stderr, flush=True)
    where = f"Measured on {date.today()}: {machine()}"
    with tempfile.TemporaryDirectory(prefix="gpuwatch-bench-") as scratch:
        heading, _, text = SECTIONS[name](Path(scratch)).partition("\n")
    return f"{heading}\n\n{where}\n{text}\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"one of {', '.join(SECTIONS)}; default: all, and write the page")
    parser.add_argument("--write", action="store_true", help="replace these sections of the page")
    options = parser.parse_args()
    if unknown := [name for name in options.sections if name not in SECTIONS]:
        parser.error(f"unknown section {', '.join(unknown)}; known are {', '.join(SECTIONS)}")
    return options


def main():
    options = arguments()
    if not LIBRARY.exists():
        sys.exit(f"bench: {LIBRARY} does not exist; run `make build`")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    fresh = "".join(measured(name) for name in options.sections or SECTIONS)
    print(fresh)
    if options.sections and not options.write:
        return
    kept = sections_of(REPORT.read_text()) if options.sections else {}
    REPORT.write_text((HEAD + "".join((kept | sections_of(fresh)).values())).rstrip() + "\n")
    print(f"bench: wrote {REPORT.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
