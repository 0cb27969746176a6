# SPDX-License-Identifier: Apache-2.0
"""Threads of a loader's worker: its own, those that send batches and hand over their memory, and those that libraries start."""

FEW_BATCHES = """
import threading
import torch
from torch.utils.data import DataLoader

def start_a_thread(worker):
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def slow(samples):  # what is shorter than a millisecond is not looked at
    threading.Event().wait(0.005)
    return torch.stack(samples)

for batch in DataLoader(list(torch.zeros(12, 4)), 2, num_workers=1, worker_init_fn=start_a_thread, collate_fn=slow):
    pass
"""


def test_threads_that_send_are_counted_in_a_short_run(run_script):
    """It starts after the first batch, as does the one that hands over its memory: two threads were seen where a library had
    started one, too few for contention."""
    done = run_script(FEW_BATCHES)
    assert done.returncode == 0, done.stderr
    counted = [call.detail[3] for call in done.trace.calls("Fetch")]
    assert len(counted) == 6
    assert max(counted) == 4
    assert sum(count > 0 for count in counted) == 2, "reading them costs some 10 us"
