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


NESTED = """
import torch
from torch.utils.data import DataLoader
samples = [({"image": torch.zeros(3, 100, 100), "mask": torch.zeros(100, 100, dtype=torch.uint8)}, i, "name") for i in range(8)]
for batch in DataLoader(samples, 4):
    pass
"""


def test_number_and_size_of_the_tensors_in_a_batch(inject, run_dir):
    inject([sys.executable, "-c", NESTED])
    kib = -(-4 * (3 * 100 * 100 * 4 + 100 * 100 + 8) // 1024)
    sizes = [call.b for call in raw_trace.read_run(run_dir).calls("Collate")]
    assert sizes == [3 << 24 | kib] * 2
