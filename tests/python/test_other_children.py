# SPDX-License-Identifier: Apache-2.0
"""Processes that a job starts itself count as its own CPU time: a loader of its own, environments; and what they start."""

import sys

import pytest
from conftest import PROGRAMS

pytestmark = pytest.mark.beside_others

JOB = """
import multiprocessing, os, pathlib, subprocess, sys, tempfile, time, torch
done = pathlib.Path(tempfile.mkdtemp())
SPIN = '''
import sys, time
while time.process_time() < 0.6: pass
open(sys.argv[1], "w")
time.sleep(5)
'''
def spin(name):
    return [sys.executable, "-c", SPIN, done / name]
child = multiprocessing.get_context("fork").Process(target=subprocess.run, args=(spin("by a child"),))
child.start()
other = subprocess.Popen(spin("by the job"))
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
seen = 0
while seen < 70:  # 1.4 s after both have used their time: more than there is between two samples
    optimizer.step()
    time.sleep(0.02)
    seen += len(os.listdir(done)) == 2
child.join()
other.wait()
"""


def test_children_and_theirs_are_counted(run_script):
    done = run_script(JOB)
    assert done.returncode == 0, done.stderr
    samples = done.trace.tables("Sample")
    assert all(sample["children_cpu_ns"] == 0 for sample in samples), "no loader, no workers"
    # Two of 0.6 s, counted in ticks of 10 ms; starting Python takes some more.
    assert 1.15e9 <= max(sample["other_children_cpu_ns"] for sample in samples) <= 4e9


def test_loader_workers_are_none_of_them(run_watched):
    done = run_watched([sys.executable, PROGRAMS / "train.py", "--workers", "2", "--sample-ms", "40", "--epochs", "2"])
    assert done.returncode == 0, done.stderr
    samples = done.trace.tables("Sample")
    assert max(sample["children_threads"] for sample in samples) >= 2, "taken while there were workers"
    assert all(sample["other_children_cpu_ns"] == 0 for sample in samples)
