# SPDX-License-Identifier: Apache-2.0
"""Runs a program with and without injection, and gives its own account of what it did beside its trace."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import raw_trace

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
STUB = HERE / "stub_torch"


@dataclass
class Watched:
    returncode: int
    stdout: str
    stderr: str
    trace: raw_trace.Trace

    @property
    def result(self):
        """What the program printed last."""
        return json.loads(self.stdout.splitlines()[-1])


@pytest.fixture
def run_plain(injected_environment):
    """run_plain(words, env={}, stdin=""): a program without injection."""
    environment = {name: value for name, value in injected_environment.items() if not name.startswith(("LD_", "GPUWATCH_"))}

    def run(words, env=None, stdin="", cwd=None):
        return subprocess.run(
            [str(word) for word in words], env={**environment, **(env or {})}, input=stdin, capture_output=True, text=True,
            timeout=180, cwd=cwd,
        )  # fmt: skip

    return run


@pytest.fixture
def run_watched(injected_environment, run_dir):
    """run_watched(words, env={}, stdin=""): the same under injection, and its trace."""

    def run(words, env=None, stdin="", cwd=None):
        done = subprocess.run(
            [str(word) for word in words], env={**injected_environment, **(env or {})}, input=stdin, capture_output=True,
            text=True, timeout=180, cwd=cwd,
        )  # fmt: skip
        return Watched(done.returncode, done.stdout, done.stderr, raw_trace.read_run(run_dir))

    return run


@pytest.fixture
def run_both(run_plain, run_watched, first_words):
    """run_both(words, env={}) -> (plain, watched): both at once, for importing torch takes seconds of one CPU; what is
    watched has the CPU first."""

    def run(words, **options):
        with ThreadPoolExecutor(max_workers=1) as beside:
            plain = beside.submit(run_plain, words, **options)
            watched = run_watched([*first_words, *words], **options)
            return plain.result(), watched

    return run


@pytest.fixture
def run_script(run_watched, tmp_path):
    """run_script(source, torch="real"): a script given as text, under injection."""

    def run(source, torch="real", options=()):
        script = tmp_path / "script.py"
        script.write_text(source)
        env = {"PYTHONPATH": str(STUB)} if torch == "stub" else {}
        return run_watched([sys.executable, *options, script], env=env)

    return run


@functools.cache
def embedded_interpreter():
    """The system's Python once more, from libpython.so: on Debian and Ubuntu python3 itself is static."""
    target = Path(tempfile.mkdtemp(prefix="gpuwatch-embedded-")) / "python3-shared"
    config = ["/usr/bin/python3-config", "--embed", "--includes", "--ldflags"]
    flags = subprocess.run(config, capture_output=True, text=True, check=True).stdout.split()
    subprocess.run(["cc", "-o", target, HERE / "embedded.c", *flags], check=True)
    return target


def interpreters():
    """Every CPython from 3.9 on that this machine offers: the one that runs the tests, the system's (static on Debian
    and Ubuntu), the same from its shared library, those that pyenv built (shared), and those that GPUWATCH_TEST_PYTHONS
    names (paths, separated by colons)."""
    candidates = [Path(sys.executable), Path("/usr/bin/python3"), embedded_interpreter()]
    candidates += sorted(Path(os.path.expanduser("~/.pyenv/versions")).glob("3.*/bin/python3"))
    candidates += [Path(path) for path in os.environ.get("GPUWATCH_TEST_PYTHONS", "").split(":") if path]
    found = {}
    for candidate in candidates:
        probe = "import sys; print(sys.version_info[:2] >= (3, 9) and not hasattr(sys, '_is_gil_enabled') or sys.version_info[:2] >= (3, 13) and sys._is_gil_enabled())"
        if candidate.exists() and subprocess.run([candidate, "-c", probe], capture_output=True, text=True).stdout == "True\n":
            found.setdefault(candidate.resolve(), candidate)
    return list(found.values())


def name_of(interpreter):
    """The same in every process that collects the tests."""
    return "embedded" if interpreter.name == "python3-shared" else str(interpreter).rpartition("/versions/")[2]
