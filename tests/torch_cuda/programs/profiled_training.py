# SPDX-License-Identifier: Apache-2.0
"""A training under torch.profiler that waits for data, computes, copies from both kinds of memory, and reads its loss.

python profiled_training.py TRACE.json STEPS     GWSIM_PHASES: where to write when the script waited or computed

Prints CLOCK_REALTIME minus CLOCK_MONOTONIC in ns: the profiler's time stamps are of the one, the device's log of the other.
"""

import json
import os
import sys
import threading
import time

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

BATCH = 256
SLOW_S = 0.02  # to make a batch: the one worker cannot keep up
WORK_S = 0.004  # of each step the script computes: how long PyTorch's own host work takes is the machine's affair


class Slow(Dataset):
    def __init__(self, batches):
        self.images, self.labels = torch.randn(batches * BATCH, 256), torch.randint(0, 10, (batches * BATCH,))

    def __len__(self):
        return len(self.labels)

    def __getitems__(self, indices):
        time.sleep(SLOW_S)
        return [(self.images[i], self.labels[i]) for i in indices]


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def work():
    end = now_ns() + WORK_S * 1e9
    while now_ns() < end:
        pass


def realtime_offset_ns():
    """From the tightest of many brackets."""

    def sample():
        before, real, after = now_ns(), time.time_ns(), now_ns()
        return after - before, real - (before + after) // 2

    return min(sample() for _ in range(1000))[1]


def main():
    path, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    phases, thread = [], threading.get_native_id()

    def note(phase, number, begin):
        phases.append({"phase": phase, "tid": thread, "step": number, "begin": begin, "end": now_ns()})

    def step(x, y):
        x, y = x.cuda(), y.pin_memory().cuda(non_blocking=True)  # the larger part from pageable memory
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    offset = realtime_offset_ns()
    ahead = DataLoader(Slow(2), batch_size=BATCH, num_workers=1)
    batches = iter(DataLoader(Slow(steps), batch_size=BATCH, num_workers=1))
    times = schedule(wait=0, warmup=1, active=steps, repeat=1)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=times) as profiler:
        for x, y in ahead:  # libraries are set up, memory is there
            step(x, y).item()
        torch.cuda.synchronize()
        profiler.step()
        for number in range(steps):
            asked = now_ns()
            x, y = next(batches)
            note("data_wait", number, asked)
            computed = now_ns()
            work()
            note("metrics", number, computed)
            loss = step(x, y)
            if number % 3 == 0:
                loss.item()
            stepped = now_ns()
            profiler.step()  # half a millisecond of host work
            note("metrics", number, stepped)
    profiler.export_chrome_trace(path)
    if log := os.environ.get("GWSIM_PHASES"):
        with open(log, "w") as file:
            file.writelines(json.dumps(phase) + "\n" for phase in phases)
    print(offset)


if __name__ == "__main__":
    main()
