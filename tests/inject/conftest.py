# SPDX-License-Identifier: Apache-2.0
"""Runs a program with and without the injected library and holds the two against each other."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))


@pytest.fixture(scope="session")
def guests(build):
    """Folder with the programs of tests/inject/guests."""
    return build / "bin/guests"


@pytest.fixture(scope="session")
def guest_libraries(build):
    return build / "lib/guests"


def run(command, env, **options):
    words = [str(word) for word in command]
    return subprocess.run(words, env=env, capture_output=True, timeout=60, **options)


@pytest.fixture
def run_both(injected_environment):
    """run_both(command, env={...}, **options for subprocess.run) -> (plain, injected)"""

    def both(command, env=None, **options):
        injected = {**injected_environment, **{name: str(value) for name, value in (env or {}).items()}}
        plain = {name: value for name, value in injected.items() if not name.startswith(("GPUWATCH_", "LD_PRELOAD"))}
        return run(command, plain, **options), run(command, injected, **options)

    return both


@pytest.fixture
def same(run_both):
    """same(command, ...): exit code, stdout and stderr are those of a run without the library."""

    def check(command, **options):
        plain, injected = run_both(command, **options)
        assert injected.returncode == plain.returncode
        assert injected.stdout == plain.stdout
        assert injected.stderr == plain.stderr
        return injected

    return check


@pytest.fixture
def dormant(same, run_dir):
    """dormant(command, ...): as `same`, and nothing was written anywhere."""

    def check(command, **options):
        result = same(command, **options)
        assert not run_dir.exists()
        return result

    return check


@pytest.fixture
def recorded(same, run_dir):
    """recorded(command, ...): as `same`, and returns the trace that the run left (tests/python/raw_trace.py)."""

    def check(command, **options):
        same(command, **options)
        import raw_trace

        return raw_trace.read_run(run_dir)

    return check
