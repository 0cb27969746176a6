# SPDX-License-Identifier: Apache-2.0
"""Damaged traces of real runs leave a report or one sentence, within limits. A short run of `make fuzz`, which has 2000."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.beside_others

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/fuzz_traces.py"
SHORT = 60
# What an analyzer could do to a damaged trace, and what the script says of it.
WRONG = {
    "kill -SEGV $$": "ended by SIGSEGV",
    "while :; do :; done": "took longer than its CPU time",
    "exit 1": "exit status 1",
    "exit 2": "0 lines on stderr",
    "printf 'gpuwatch: a\\nb\\n' >&2; exit 2": "2 lines on stderr",
    "echo 'gpuwatch: internal error, please report it: x' >&2; exit 2": "says 'internal error'",
    "echo 'gpuwatch: not enough memory for this trace' >&2; exit 2": "says 'not enough memory'",
    "echo": "a report that is no JSON",
    "echo '{\"ranks\": []}'; echo oops >&2": "a report, and words on stderr",
    'echo \'{"ranks": [{"wall_ns": 3, "attribution": [{"ns": 2}]}]}\'': "categories that do not add up",
}


def fuzz(*options):
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)


def test_damaged_traces_leave_a_report_or_a_sentence(gpuwatch, tmp_path):
    done = fuzz("--count", SHORT, "--gpuwatch", gpuwatch, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SHORT} mutated traces" in done.stdout and "0 failures" in done.stdout


@pytest.mark.parametrize("deed", WRONG)
def test_what_is_no_answer_is_a_failure(deed, tmp_path):
    analyzer = tmp_path / "gpuwatch"
    analyzer.write_text(f"#!/bin/sh\ncase $2 in *unharmed*) echo '{{\"ranks\": []}}'; exit;; esac\n{deed}\n")
    analyzer.chmod(0o755)
    trace = tmp_path / "a.gwt"
    trace.write_bytes(bytes(range(256)) * 64)
    options = ("--count", 2, "--cpu-seconds", 1, "--trace", trace, "--keep", tmp_path / "kept")
    done = fuzz(*options, "--gpuwatch", analyzer)
    assert done.returncode == 1, done.stdout + done.stderr
    assert WRONG[deed] in done.stdout
    assert "2 failures" in done.stdout and len(list((tmp_path / "kept").iterdir())) == 2


def test_a_mutated_trace_is_the_same_again(tmp_path):
    """By seed and number: what failed can be looked at."""
    trace = tmp_path / "a.gwt"
    trace.write_bytes(bytes(range(1, 256)) * 300)
    analyzer = tmp_path / "gpuwatch"
    analyzer.write_text("#!/bin/sh\necho '{\"ranks\": []}'\n")
    analyzer.chmod(0o755)
    for attempt in ("first", "second"):
        for number in range(4):
            done = fuzz("--only", number, "--trace", trace, "--gpuwatch", analyzer, "--keep", tmp_path / attempt)
            assert done.returncode == 0, done.stdout + done.stderr
    kept = [{path.parent.name: path.read_bytes() for path in (tmp_path / attempt).glob("*/a.gwt")} for attempt in ("first", "second")]
    assert kept[0] == kept[1] and len(kept[0]) == 4
    assert all(data != trace.read_bytes() for data in kept[0].values())
