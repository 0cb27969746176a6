#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damages traces of real runs and analyzes each: a report or one clear sentence must come out, within limits.

    scripts/fuzz_traces.py                              2000 mutated traces, seed 1
    scripts/fuzz_traces.py --count 60 --seed 7          fewer, and others
    scripts/fuzz_traces.py --only 1234 --keep FOLDER    that one of the 2000 again, kept
    scripts/fuzz_traces.py --trace DIR --trace FILE     of these traces instead of runs recorded here

The runs are recorded first: a CUDA program on the simulated device, and PyTorch's DataLoader on the CPU, with workers and without.
Real traces of torch.profiler next to the working copy (shared/traces) are used where they are. The n-th mutated trace depends on
the seed, on n and on the run. Each is analyzed whole (`gpuwatch analyze --json --perfetto --html`) under a limit of CPU time and of memory. A build
with sanitizers (GPUWATCH_BUILD=build/asan) is given more of both. Exit status 1 if any trace crashed the analyzer, exceeded a
limit, or left neither a report nor one sentence; such traces are kept. tests/fuzz has libFuzzer's targets for the readers alone.
"""

import argparse
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROFILES = next((parent / "shared/traces" for parent in ROOT.parents if (parent / "shared/traces").is_dir()), None)
PAGE = 4096
SANITIZED = 8  # times as slow, and as large
MOST_REPORT_BYTES = 64 << 20
USAGE, CRASHED = 2, 1


@dataclass
class Base:
    """The files of one run."""

    name: str
    files: dict  # name -> bytes

    def save(self, folder, files=None):
        folder.mkdir(parents=True)
        for name, data in (files or self.files).items():
            (folder / name).write_bytes(data)
        return folder


# --- mutations: each takes a bytearray and a random number generator, and says in words what it did --------------


def spans(data, random, most=4):
    """A run of pages that hold something, as two offsets. Files are extended far ahead; damage to what is empty says nothing."""
    pages = [at for at in range(0, len(data), PAGE) if any(data[at : at + PAGE])] or [0]
    begin = random.choice(pages)
    return begin, min(len(data), begin + PAGE * random.randint(1, most))


def truncate(data, random):
    at = random.randrange(1, max(2, len(data)))
    if random.random() < 0.3:
        at = max(1, at // PAGE * PAGE)
    del data[at:]
    return f"cut off after {at} bytes"


def flip_bits(data, random):
    count = 1 << random.randrange(8)
    begin, end = spans(data, random) if random.random() < 0.5 else (0, len(data))
    for _ in range(count):
        data[random.randrange(begin, end)] ^= 1 << random.randrange(8)
    return f"{count} bits flipped between {begin} and {end}"


def zero_pages(data, random):
    begin, end = spans(data, random)
    data[begin:end] = bytes(end - begin)
    return f"zeros from {begin} to {end}"


def repeat_pages(data, random):
    """Over others, or between them."""
    begin, end = spans(data, random)
    to = random.randrange(0, len(data), PAGE)
    is_inserted = random.random() < 0.5
    data[to : to if is_inserted else to + end - begin] = data[begin:end]
    return f"bytes {begin} to {end} again {'before' if is_inserted else 'at'} {to}"


def set_words(data, random):
    """What random bits are unlikely to hit: the ends of ranges, as a length, a count, a time or an id."""
    values = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
    begin, end = spans(data, random)
    count = random.randint(1, 8)
    for _ in range(count):
        at = random.randrange(begin, end) // 4 * 4
        data[at : at + 4] = random.choice(values).to_bytes(4, "little")
    return f"{count} words set between {begin} and {end}"


MUTATIONS = (truncate, flip_bits, zero_pages, repeat_pages, set_words)


def mutated(base, seed, number):
    """The files of the mutated run, and what was done to them."""
    choose = random.Random(f"{seed} {number}")
    name = choose.choice(sorted(base.files))
    data = bytearray(base.files[name])
    words = [choose.choice(MUTATIONS)(data, choose) for _ in range(choose.choice((1, 1, 2, 3)))]
    return {**base.files, name: bytes(data)}, f"{base.name}/{name}: {', '.join(words)}"


# --- what the traces are of ------------------------------------------------------------------------------------------


def trimmed(data):
    """Without the empty pages that a file is extended by ahead of its records."""
    used = len(data.rstrip(b"\0"))
    return data[: -(-used // PAGE) * PAGE]


def base_of(path):
    files = sorted(path.glob("*.gwt")) if path.is_dir() else [path]
    if not files:
        sys.exit(f"fuzz_traces: there is no .gwt file in {path}")
    return Base(path.name, {file.name: trimmed(file.read_bytes()) for file in files})


def record(build, scratch):
    programs = ROOT / "tests/python/programs"
    train = [sys.executable, programs / "train.py", "--sample-ms", "0.2", "--compute-ms", "1", "--epochs", "5"]
    on_device = {"LD_LIBRARY_PATH": build / "lib/sim", "GWSIM_CONFIG": ROOT / "cuda/workloads/exposed_copy.conf"}
    runs = {
        "device": ([build / "bin/workloads/exposed_copy", "--steps", "40"], on_device),
        "workers": ([*train, "--workers", "2"], {}),
        "inline": (train, {}),
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GPUWATCH_", "GWSIM_", "LD_"))}
    for name, (command, settings) in runs.items():
        out = scratch / "recorded" / name
        out.parent.mkdir(exist_ok=True)
        environment = {**clean, "LD_PRELOAD": build / "lib/libgpuwatch.so", "GPUWATCH_OUT": out, **settings}
        done = subprocess.run(
            [str(word) for word in command], env={key: str(value) for key, value in environment.items()},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"fuzz_traces: the run {name} ended with {done.returncode}:\n{done.stderr}")
        yield base_of(out)


def profiles():
    """Small ones, unpacked: damage to what gzip made only says that gzip knows."""
    for name in ("alexnet_a100", "gpu_only_mi210") if PROFILES else ():
        path = PROFILES / f"{name}.json.gz"
        if path.exists():
            yield Base(name, {f"{name}.json": gzip.decompress(path.read_bytes())})


# --- one analysis ----------------------------------------------------------------------------------------------------


@dataclass
class Limits:
    cpu_s: int
    memory_mib: int
    is_sanitized: bool

    def command(self, words):
        # A sanitizer reserves terabytes of addresses; it watches what is used by itself.
        memory = [] if self.is_sanitized else [f"--as={self.memory_mib << 20}"]
        return ["prlimit", f"--cpu={self.cpu_s}:{self.cpu_s + 5}", "--core=0", *memory, "--", *(str(word) for word in words)]

    def environment(self):
        options = f"hard_rss_limit_mb={self.memory_mib}:detect_leaks=0:abort_on_error=1"
        return {**os.environ, "ASAN_OPTIONS": options, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def complaint(returncode, stdout, stderr):
    """What is wrong with an analysis; None if nothing is."""
    if returncode == -signal.SIGXCPU:
        return "took longer than its CPU time"
    if returncode < 0:
        return f"ended by {signal.Signals(-returncode).name}"
    if returncode not in (0, USAGE):
        return f"exit status {returncode}"
    if returncode == USAGE:
        lines = stderr.splitlines()
        if stdout or len(lines) != 1 or not lines[0].startswith("gpuwatch: "):
            return f"{len(lines)} lines on stderr, {len(stdout)} bytes of report"
        return next((f"says {words!r}" for words in ("internal error", "not enough memory") if words in stderr), None)
    if stderr:
        return "a report, and words on stderr"
    if len(stdout) > MOST_REPORT_BYTES:
        return f"a report of {len(stdout)} bytes"
    try:
        report = json.loads(stdout)
    except ValueError as error:
        return f"a report that is no JSON: {error}"
    for rank in report["ranks"]:
        if sum(row["ns"] for row in rank["attribution"]) != rank["wall_ns"]:
            return "categories that do not add up to the steps"
    return None


def analyze(gpuwatch, folder, limits):
    """(complaint or None, exit status, stderr)"""
    command = limits.command([gpuwatch, "analyze", folder, "--json", "--perfetto", os.devnull, "--html", os.devnull])
    try:
        done = subprocess.run(
            command, env=limits.environment(), capture_output=True, text=True, errors="replace", timeout=60 + 20 * limits.cpu_s
        )
    except subprocess.TimeoutExpired:
        return "waits without end", None, ""
    return complaint(done.returncode, done.stdout, done.stderr), done.returncode, done.stderr


@dataclass
class Fuzzing:
    gpuwatch: Path
    limits: Limits
    bases: list
    seed: int
    scratch: Path
    keep: Path

    def check_unharmed(self):
        for base in self.bases:
            wrong, status, stderr = analyze(self.gpuwatch, base.save(self.scratch / "unharmed" / base.name), self.limits)
            if wrong or status != 0:
                return f"unharmed {base.name}: {wrong or stderr.strip()}"
        return None

    def one(self, number, is_kept=False):
        """(what went wrong or None, exit status)"""
        base = self.bases[number % len(self.bases)]
        files, words = mutated(base, self.seed, number)
        folder = base.save(self.scratch / "mutated" / str(number), files)
        wrong, status, stderr = analyze(self.gpuwatch, folder, self.limits)
        if wrong:
            words = f"{number}: {wrong}\n  {words}\n  {stderr.strip()[:2000]}"
        if wrong or is_kept:
            shutil.copytree(folder, self.keep / f"{self.seed}-{number}", dirs_exist_ok=True)
        shutil.rmtree(folder)
        return words if wrong else None, status

    def all(self, numbers, jobs, is_kept):
        """How many there were of each exit status, and the words for those that failed."""
        statuses, failures = {}, []
        with ThreadPoolExecutor(jobs) as pool:
            for wrong, status in pool.map(lambda number: self.one(number, is_kept), numbers):
                statuses[status] = statuses.get(status, 0) + 1
                if wrong:
                    failures.append(wrong)
                    print(wrong, flush=True)
        return statuses, failures


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="mutated traces (default: 2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of a single one")
    parser.add_argument("--trace", type=Path, action="append", help="a trace, or a folder of them, instead of recording runs")
    parser.add_argument("--gpuwatch", type=Path, help="default: that of GPUWATCH_BUILD, or build/release")
    parser.add_argument("--cpu-seconds", type=int, default=10, help="for each analysis (default: 10)")
    parser.add_argument("--memory-mib", type=int, default=512, help="for each analysis (default: 512)")
    parser.add_argument("--keep", type=Path, default=ROOT / "build/fuzz-failures", help="where traces that fail are kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    return parser.parse_args()


def main():
    args = parse_arguments()
    build = Path(os.environ.get("GPUWATCH_BUILD", ROOT / "build/release")).resolve()
    gpuwatch = (args.gpuwatch or build / "bin/gpuwatch").resolve()
    if not gpuwatch.exists():
        sys.exit(f"fuzz_traces: {gpuwatch} does not exist: run `make build`")
    is_sanitized = b"__asan_init" in gpuwatch.read_bytes()
    more = SANITIZED if is_sanitized else 1
    limits = Limits(args.cpu_seconds * more, args.memory_mib * more, is_sanitized)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        bases = [base_of(path) for path in args.trace] if args.trace else [*record(build, scratch), *profiles()]
        sizes = ", ".join(f"{base.name} {sum(map(len, base.files.values())) >> 10} KiB" for base in bases)
        print(f"seed {args.seed}, {limits.cpu_s} s of CPU and {limits.memory_mib} MiB each, of: {sizes}", flush=True)
        fuzzing = Fuzzing(gpuwatch, limits, bases, args.seed, scratch, args.keep)
        if words := fuzzing.check_unharmed():
            sys.exit(f"fuzz_traces: {words}")
        numbers = range(args.count) if args.only is None else [args.only]
        statuses, failures = fuzzing.all(numbers, args.jobs, args.only is not None)
    said = f"{statuses.get(0, 0)} reports, {statuses.get(USAGE, 0)} sentences"
    print(f"{len(numbers)} mutated traces: {said}, {len(failures)} failures" + (f", kept in {args.keep}" if failures else ""))
    return CRASHED if failures else 0


if __name__ == "__main__":
    sys.exit(main())
