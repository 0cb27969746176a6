# SPDX-License-Identifier: Apache-2.0
"""What a program of tests/abroad is, and how it is started. Nothing here knows what gpuwatch says."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = HERE / "programs"
BUILD = Path(os.environ.get("GPUWATCH_BUILD", ROOT / "build/release")).resolve()
HOME = Path(os.environ.get("ABROAD_HOME", ROOT / "build/abroad")).resolve()  # data sets, compiled programs
CPU_PYTHON = Path(os.environ.get("ABROAD_PYTHON", ROOT / "build/abroad-venv/bin/python"))
CUDA_PYTHON = Path(os.environ.get("GPUWATCH_TORCH_CUDA", ROOT / "build/torch-cuda")) / "bin/python"
LONGEST_S = 300
GAIN = 0.03  # what counts as a gain, and as a tie with the best

sys.path.insert(0, str(ROOT / "tests/storage"))
from slow import SlowMount  # noqa: E402


@dataclass(frozen=True)
class Fix:
    """A change that the program's user could make. `findings`: the ids of causes.md for which it is the remedy."""

    findings: tuple
    words: tuple  # arguments to add; where an option is given twice the last one counts
    takes: tuple = ()  # (setting of the report's fix, option): the option gets the value that the report names
    env: dict = field(default_factory=dict, hash=False)  # variables to set

    @property
    def name(self):
        return " ".join([*(f"{name}={value}" for name, value in self.env.items()), *self.words])


@dataclass(frozen=True)
class Case:
    name: str
    program: str
    words: tuple
    fixes: list = field(hash=False)
    device: str = ""  # "": runs on the CPU; else a description of cuda/sim/devices or devices/
    data: str = ""  # kind of make_data.py; "{data}" in the words is its folder
    store_ms: float = 0  # the data lie in object_store.py, which answers after so long: "{url}" in the words
    mount: dict = field(default_factory=dict, hash=False)  # the data lie on a slow mount: arguments of SlowMount
    env: dict = field(default_factory=dict, hash=False)
    package: str = ""  # what of it was not written for this; "" for a home-made program
    side: str = "input"  # or "device", "script"
    framework: str = "torch"  # or "tensorflow", "keras", "jax"
    status: str = "new"  # "seen": it has led to a change of gpuwatch, and is no longer judged


def fix(findings, words, **takes):
    return Fix((findings,) if isinstance(findings, str) else tuple(findings), tuple(words.split()), tuple(takes.items()))


def data_of(kind):
    """The data set's folder, made where it is missing."""
    folder = HOME / "data" / kind
    if kind and not folder.exists():
        made = folder.with_name(f"{kind}.part")
        subprocess.run(["rm", "-rf", made], check=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([CPU_PYTHON, PROGRAMS / "make_data.py", kind, made], check=True, capture_output=True)
        made.rename(folder)
    return folder


def compiled(program):
    """A .cu program, built by nvcc as anyone would build it."""
    source, binary = PROGRAMS / program, HOME / "bin" / Path(program).stem
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        binary.parent.mkdir(parents=True, exist_ok=True)
        nvcc = [ROOT / "build/cuda/bin/nvcc", "-std=c++17", "-O2", "-arch=compute_75", "-code=compute_75", "-cudart", "shared", f"-L{BUILD}/lib/sim", "-Xcompiler", "-pthread"]
        subprocess.run([*nvcc, "-o", binary, source], check=True)
    return binary


def start_of(case):
    if case.program.endswith(".cu"):
        return [compiled(case.program)]
    return [CUDA_PYTHON if case.device else CPU_PYTHON, PROGRAMS / case.program]


def environment_of(case):
    own = {name: value for name, value in os.environ.items() if not name.startswith(("GPUWATCH_", "GWSIM_", "LD_"))}
    own |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "ABROAD_DISK": str(HOME), "PYTHONDONTWRITEBYTECODE": "1", **case.env}
    if case.device:
        folders = (HERE / "devices", ROOT / "cuda/sim/devices")
        own["GWSIM_CONFIG"] = str(next(folder / f"{case.device}.conf" for folder in folders if (folder / f"{case.device}.conf").exists()))
        own["LD_LIBRARY_PATH"] = str(BUILD / "lib/sim")
    else:
        own["CUDA_VISIBLE_DEVICES"] = ""
    return own


@contextlib.contextmanager
def surroundings(case):
    """What the case's words may name: {"data": ..., "url": ...}."""
    data, names, server = data_of(case.data), {}, None
    with contextlib.ExitStack() as stack:
        if case.mount:
            data = stack.enter_context(SlowMount(BUILD, data, HOME / f"mnt-{case.name}", **case.mount)).point
        if case.store_ms:
            server = subprocess.Popen([sys.executable, PROGRAMS / "object_store.py", data, str(case.store_ms)], stdout=subprocess.PIPE, text=True)
            names["url"] = server.stdout.readline().strip()
        try:
            yield {"data": str(data), **names}
        finally:
            if server:
                server.kill()
                server.wait()


class Failed(Exception):
    pass


FAILURES = (Failed, OSError, subprocess.SubprocessError)


def run(case, extra=(), environment=None, prefix=()):
    """One run. The program's own clock: {"step_ms", "steps", "samples_per_s"}."""
    HOME.mkdir(parents=True, exist_ok=True)
    with surroundings(case) as names:
        words = [word.format(**names) for word in (*case.words, *extra)]
        command = [str(word) for word in (*prefix, *start_of(case), *words)]
        done = subprocess.run(command, env={**environment_of(case), **(environment or {})}, capture_output=True, text=True, timeout=LONGEST_S, cwd=HOME)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"step_ms"')]
    if done.returncode or not lines:
        raise Failed(f"{case.name} {' '.join(extra)} ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return json.loads(lines[-1])
