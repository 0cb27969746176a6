# SPDX-License-Identifier: Apache-2.0
"""Shared by all sections of the acceptance run: the build, jobs with and without gpuwatch, figures. Standard library only."""

from __future__ import annotations  # Python 3.9

import ctypes
import importlib.util
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GPUWATCH_BUILD", ROOT / "build/release")).resolve()
LIBRARY = BUILD / "lib/libgpuwatch.so"
WORKLOADS = BUILD / "bin/workloads"
TORCH_JOBS = Path(__file__).resolve().parent / "torch_jobs.py"
KEPT_BYTES = 32 << 20
RUNTIME = "libcudart.so.13"  # what the workloads were linked with

sys.path.insert(0, str(ROOT / "tests/python"))
sys.path.insert(0, str(ROOT / "tests/cupti"))


class NotRun(Exception):
    """This machine cannot answer the question. The text says why."""


class Failed(Exception):
    """A promise is broken, or a program failed."""


@dataclass
class Figure:
    """One measured value. `low` and `high`: its 95% interval, if any; `raw`: the numbers behind it."""

    what: str
    value: object
    unit: str = ""
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    raw: list = field(default_factory=list)


def median_interval(values):
    """(median, low, high, confidence) without assuming a distribution: the k-th values from both ends enclose the median
    with a probability that follows from the binomial distribution. Takes the innermost k that still has 95%; of fewer than
    six values, the lowest and the highest with their confidence."""
    ordered, n = sorted(values), len(values)
    k, outside = 0, 0.5**n
    while k + 1 < n // 2:
        further = outside + math.comb(n, k + 1) * 0.5**n
        if 1 - 2 * further < 0.95:
            break
        k, outside = k + 1, further
    return statistics.median(ordered), ordered[k], ordered[n - 1 - k], max(0.0, 1 - 2 * outside)


def spread(what, values, unit):
    if len(values) == 1:
        return Figure(what, values[0], unit, raw=list(values))
    median, low, high, confidence = median_interval(values)
    return Figure(what, median, unit, low, high, confidence, list(values))


def expect(holds, sentence):
    if not holds:
        raise Failed(sentence)


def die_with_parent():
    """In a child, before exec: ends the child when its section is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@dataclass
class Recording:
    """A job that ran under gpuwatch: its report, its traces, its phases and output."""

    directory: Path
    report: dict
    phases: list
    stdout: str

    @property
    def rank(self):
        expect(self.report["ranks"], f"the report has no rank: {self.report['verdict']['sentence']}")
        return self.report["ranks"][0]

    @property
    def sources(self):
        return self.report["coverage"]["sources"]

    def device_trace(self):
        """Device records and calls, decoded without the analyzer."""
        from device_trace import DeviceTrace

        return DeviceTrace(self.directory)


class Rig:
    def __init__(self, simulated, quick, scratch, keep=None):
        self.simulated, self.quick, self.scratch, self.keep = simulated, quick, Path(scratch), keep
        self.jobs = 0
        self.served = ()

    def pick(self, full, quick):
        return quick if self.quick else full

    # --- processes ---------------------------------------------------------------------------------------------------

    def environment(self, out=None, runtime=True, **settings):
        """Environment of a job, recorded into `out` if given; `runtime` for programs that nvcc built."""
        dropped = ("GPUWATCH_", "GWSIM_", "LD_PRELOAD", "CUDA_INJECTION64_PATH")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        folder = BUILD / "lib/sim" if self.simulated else runtime_folder() if runtime else None
        if folder:
            kept["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(folder), kept.get("LD_LIBRARY_PATH")]))
        if out:
            kept |= {"LD_PRELOAD": str(LIBRARY), "GPUWATCH_OUT": str(out)}
        return {**kept, **{name: str(value) for name, value in settings.items()}}

    def run(self, command, environment):
        """Runs a command to its end. The last line of its output says what failed."""
        words = [str(word) for word in command]
        done = subprocess.run(
            words, env=environment, cwd=self.scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", preexec_fn=die_with_parent,
        )  # fmt: skip
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise Failed(f"{Path(words[0]).name} {' '.join(words[1:])} failed with status {done.returncode}: {last}")
        return done

    def new_folder(self, name):
        self.jobs += 1
        return self.scratch / f"{name}.{os.getpid()}.{self.jobs}"

    # --- programs that nvcc built ------------------------------------------------------------------------------------

    def workload(self, name, *arguments, recorded=False, **settings):
        """Runs one of cuda/workloads to its end; its phases with or without recording."""
        program = WORKLOADS / name
        if not program.exists():
            raise NotRun(f"{program} does not exist: building it needs nvcc")
        folder = self.new_folder(name)
        phases = folder.with_suffix(".phases")
        if self.simulated and (WORKLOADS / f"{name}.conf").exists():
            settings.setdefault("GWSIM_CONFIG", WORKLOADS / f"{name}.conf")
        environment = self.environment(folder if recorded else None, GWSIM_PHASES=phases, **settings)
        try:
            done = self.run([program, *arguments], environment)
        except Failed as failure:
            raise self.reason_of(failure) from None
        lines = phases.read_text().splitlines() if phases.exists() else []
        report = self.analyze(folder) if recorded else {}
        return Recording(folder, report, [json.loads(line) for line in lines], done.stdout)

    def reason_of(self, failure):
        """A driver that is older than the programs' runtime is not an error of gpuwatch."""
        text = str(failure)
        old = ("insufficient for CUDA runtime", "unsupported toolchain", f"{RUNTIME}: cannot open", "PTX was compiled")
        return NotRun(text) if any(sign in text for sign in old) else failure

    def analyze(self, folder):
        expect(folder.is_dir(), f"the job left no trace in {folder.name}")
        if self.keep and sum(path.stat().st_size for path in folder.iterdir()) <= KEPT_BYTES:
            shutil.copytree(folder, self.keep / folder.name)
        command = [BUILD / "bin/gpuwatch", "analyze", folder, "--json"]
        return json.loads(self.run(command, self.analyzer_environment()).stdout)

    def analyzer_environment(self):
        environment = self.environment(runtime=False)
        own = BUILD / "lib/own"  # shared libraries of a bundle (bundle.py)
        if own.is_dir():
            environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [environment.get("LD_LIBRARY_PATH"), str(own)]))
        return environment

    # --- PyTorch -----------------------------------------------------------------------------------------------------

    def torch_command(self, *arguments):
        return [sys.executable, TORCH_JOBS, *arguments, *(["--small"] if self.quick else [])]

    def need_torch(self):
        """PyTorch's version and device, from torch_jobs.py. A refusal is kept for the sections that follow."""
        kept = self.scratch / "torch.json"
        if not kept.exists():
            environment = self.environment(runtime=False)
            said = self.run([sys.executable, TORCH_JOBS, "probe"], environment).stdout.splitlines()[-1]
            kept.write_text(said)
        said = json.loads(kept.read_text())
        if "not_run" in said:
            raise NotRun(said["not_run"])
        return said

    def torch_job(self, *arguments, recorded=False, **settings):
        """Runs torch_jobs.py to its end: (what it printed as JSON, its Recording if recorded)."""
        self.need_torch()
        folder = self.new_folder(arguments[0])
        environment = self.environment(folder if recorded else None, runtime=False, **settings)
        said = json.loads(self.run(self.torch_command(*arguments), environment).stdout.splitlines()[-1])
        if "not_run" in said:
            raise NotRun(said["not_run"])
        return said, Recording(folder, self.analyze(folder), [], "") if recorded else None

    def served_pair(self):
        """Two processes that serve steps: without and with the library. Started once, and again if one broke."""
        self.need_torch()
        if not self.served or any(served.process.poll() is not None for served in self.served):
            self.served = (Served(self, None), Served(self, self.new_folder("served")))
        return self.served


class Served:
    """torch_jobs.py as a process that runs steps on request, so that two of them can take turns. It ends with its section."""

    def __init__(self, rig, out):
        command = [str(word) for word in rig.torch_command("serve")]
        self.errors = (rig.scratch / f"served.{'on' if out else 'off'}.stderr").open("w+")
        self.process = subprocess.Popen(
            command, env=rig.environment(out, runtime=False), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, text=True, cwd=rig.scratch, preexec_fn=die_with_parent,
        )  # fmt: skip

    def steps(self, job, count):
        """Mean milliseconds a step over `count` steps of the named job."""
        self.process.stdin.write(f"{job} {count}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise Failed(f"{job}: {(self.errors.read().strip() or 'no output').splitlines()[-1]}")
        said = json.loads(line)
        if "not_run" in said:
            raise NotRun(said["not_run"])
        return said["mean_ms"]


def runtime_folder():
    """Folder of the workloads' runtime, if the dynamic linker does not find it: a toolkit, PyTorch's packages, the packages that
    the build used."""
    try:
        ctypes.CDLL(RUNTIME)
        return None
    except OSError:
        pass
    folders = [*sorted(Path("/usr/local").glob("cuda*/lib64")), *sorted(Path("/usr/local").glob("cuda*/targets/*/lib"))]
    for package in ("nvidia", "torch"):
        spec = importlib.util.find_spec(package)
        for place in spec.submodule_search_locations or [] if spec else []:
            folders += [Path(place) / "cu13/lib", Path(place) / "cuda_runtime/lib", Path(place) / "lib"]
    folders += [BUILD / "lib/cuda", ROOT / "build/cuda/lib"]
    return next((folder for folder in folders if (folder / RUNTIME).exists()), None)


def device_name(simulated):
    """Name of the first device, from the driver. Raises NotRun if there is none."""
    try:
        driver = ctypes.CDLL(str(BUILD / "lib/sim/libcuda.so.1") if simulated else "libcuda.so.1")
    except OSError as error:
        raise NotRun(f"no CUDA driver ({error})") from None
    count, device, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        raise NotRun(f"the CUDA driver finds no device (status {status})")
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceGetName(name, len(name), device)
    return name.value.decode(errors="replace")


def step_ms(phases, skip=1):
    """Milliseconds a step from a workload's log, including its final wait for the device."""
    steps = [phase for phase in phases if phase["phase"] == "step"]
    ends = [phase["end"] for phase in phases if phase["phase"] in ("step", "drain")]
    expect(len(steps) > skip + 1, "the program logged too few steps")
    return (max(ends) - steps[skip]["begin"]) / (len(steps) - skip) / 1e6


def alternate(pairs, off, on):
    """[(off(), on())] in alternating order, so that a drift of the machine cancels."""
    values = []
    for n in range(pairs):
        if n % 2:
            second = on()
            values.append((off(), second))
        else:
            first = off()
            values.append((first, on()))
    return values


def cost_figures(job, pairs, calls=None):
    """Figures from pairs of step times in ms, without and with recording."""
    yield spread(f"{job}: step without recording", [a for a, _ in pairs], "ms")
    yield spread(f"{job}: step with recording", [b for _, b in pairs], "ms")
    yield spread(f"{job}: step longer by", [(b / a - 1) * 100 for a, b in pairs], "%")
    if calls:
        yield spread(f"{job}: a call longer by", [(b - a) * 1e6 / calls for a, b in pairs], "ns")
