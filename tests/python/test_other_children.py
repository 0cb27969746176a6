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
used = sum(os.times()[2:4])
began = time.monotonic()
while time.monotonic() - began < 1.5:
    optimizer.step()
    time.sleep(0.02)
print(used)
"""


def test_children_and_theirs_are_counted(run_script):
    done = run_script(JOB)
    assert done.returncode == 0, done.stderr
    samples = done.trace.tables("Sample")
    assert all(sample["children_cpu_ns"] == 0 for sample in samples), "no loader, no workers"
    # Two of 0.6 s, counted in ticks of 10 ms; starting Python takes some more.
    assert 1.15e9 <= max(sample["other_children_cpu_ns"] for sample in samples) <= 4e9
    assert samples[-1]["ended_children_cpu_ns"] / 1e9 == pytest.approx(done.result, abs=0.02)
    assert samples[-1]["other_children_cpu_ns"] == 0


def test_workers_that_ended_keep_what_they_used(run_script):
    done = run_script("""
import os, time, torch
class Spin(torch.utils.data.Dataset):
    def __len__(self): return 30
    def __getitem__(self, index):
        end = time.process_time() + 0.02
        while time.process_time() < end: pass
        return index
loader, model = torch.utils.data.DataLoader(Spin(), num_workers=2), torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(8):
    if epoch == 4: used = sum(os.times()[2:4])
    for batch in loader:
        optimizer.step()
print(used)
""")
    assert done.returncode == 0, done.stderr
    ended = [sample["ended_children_cpu_ns"] / 1e9 for sample in done.trace.tables("Sample")]
    assert ended == sorted(ended)
    assert done.result >= 4 * 30 * 0.02
    assert ended[-1] >= done.result, "the last sample comes in the fifth epoch or later"


def test_loader_workers_are_none_of_them(run_watched):
    done = run_watched([sys.executable, PROGRAMS / "train.py", "--workers", "2", "--sample-ms", "40", "--epochs", "2"])
    assert done.returncode == 0, done.stderr
    samples = done.trace.tables("Sample")
    assert max(sample["children_threads"] for sample in samples) >= 2, "taken while there were workers"
    assert all(sample["other_children_cpu_ns"] == 0 for sample in samples)
