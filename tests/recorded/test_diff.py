# SPDX-License-Identifier: Apache-2.0
"""`gpuwatch diff` as a command: exit codes, thresholds and what is said of runs that do not compare."""

import json
import subprocess

import pytest
from recorded_trace import unpack



@pytest.fixture
def diff(gpuwatch, tmp_path):
    """diff(names of recordings, options) -> the finished command"""

    def run(*names, options=()):
        folders = [unpack(name, tmp_path / name) for name in names]
        return subprocess.run(
            [gpuwatch, "diff", *folders, *options],
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_a_run_does_not_differ_from_itself(diff):
    done = diff(
        "speech-buffers",
        "speech-buffers",
        options=["--json", "--fail-on", "step=1", "--fail-on", "data-loading=1"],
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert (
        said["speedup"]["expected"] == 1
        and said["speedup"]["low"] < 1 < said["speedup"]["high"]
    )
    assert (
        not said["changed"]
        and not said["gone"]
        and not said["new"]
        and not said["differs"]
    )
    assert all(row["before_ms"] == row["after_ms"] for row in said["rows"])


def test_two_programs_are_not_equal_and_a_threshold_fails(diff):
    """By truth.json a step of the second takes 2.8 ms, and of the first 1.06 in this recording."""
    slower = diff(
        "speech-buffers", "ratings-one-buffer", options=["--fail-on", "step=5"]
    )
    assert slower.returncode == 1 and "longer, and 5% is allowed" in slower.stderr
    assert slower.stdout.startswith("SLOWER: ")
    assert "script speech_frontend, then rating_blocks" in " ".join(
        slower.stdout.split()
    )
    faster = diff(
        "ratings-one-buffer", "speech-buffers", options=["--fail-on", "step=5"]
    )
    assert (faster.returncode, faster.stderr) == (0, "")
    assert faster.stdout.startswith("FASTER: ")


def test_several_runs_are_compared_with_the_first(diff):
    done = diff("speech-buffers", "spmv-residual", "video-pageable")
    assert done.returncode == 0
    assert done.stdout.count("where a step goes") == 2


@pytest.mark.parametrize("options", [["--fail-on", "data=3"], ["--fail-on", "step"]])
def test_a_threshold_that_cannot_be_read_is_one_sentence(diff, options):
    done = diff("video-pageable", "video-pageable", options=options)
    assert (
        done.returncode == 2
        and done.stderr.count("\n") == 1
        and "--fail-on" in done.stderr
    )


def test_one_run_is_not_compared(diff):
    done = diff("video-pageable")
    assert done.returncode == 2 and "BEFORE AFTER" in done.stderr
