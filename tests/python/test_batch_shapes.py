# SPDX-License-Identifier: Apache-2.0
"""Sizes of what a batch is collated from, as the trace has them, against what the program knows."""

import json
import subprocess
import sys

import raw_trace
from conftest import PROGRAMS


def test_sizes_are_those_of_the_batches(inject, run_dir):
    """And nothing of the program's own was asked: it says so on stderr, as it does without injection."""
    command = [sys.executable, PROGRAMS / "shapes.py"]
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    done = inject(command)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    shapes = [[call.b, *call.detail] for call in raw_trace.read_run(run_dir).calls("BatchShape")]
    assert shapes == [[samples, elements, padded, longest, samples] for samples, elements, padded, longest in json.loads(done.stdout)]
