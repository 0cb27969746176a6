# SPDX-License-Identifier: Apache-2.0
"""A training loop around a DataLoader whose batches cost a known time, which times its own waits. Knows nothing of gpuwatch.

Prints JSON: seconds inside each next() that returned a batch, seconds of each step.
"""

import argparse
import json
import math
import random
import time

import torch
from torch.utils.data import DataLoader, Dataset


def keep_busy(seconds):
    """Uses a CPU for that long, by the thread's own CPU clock."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Timed(Dataset):
    """`batch` samples together cost `service_ms`; with spread > 0 the cost of a batch is lognormal around it."""

    def __init__(self, options):
        self.options = options

    def __len__(self):
        return self.options.batches * self.options.batch

    def __getitem__(self, index):
        options = self.options
        seconds = options.service_ms / 1e3 / options.batch
        if options.spread:
            of_batch = random.Random(index // options.batch)
            seconds *= math.exp(of_batch.gauss(0, options.spread) - options.spread**2 / 2)
        (keep_busy if options.cpu else time.sleep)(seconds)
        return torch.zeros(16)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--batches", type=int, default=80)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--service-ms", type=float, default=24)
    parser.add_argument("--think-ms", type=float, default=10)
    parser.add_argument("--spread", type=float, default=0)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()

    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.zeros(16))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    loader = DataLoader(Timed(options), options.batch, num_workers=options.workers, prefetch_factor=options.prefetch)
    waits, ends = [], []
    batches = iter(loader)
    while True:
        began = time.perf_counter()
        try:
            batch = next(batches)
        except StopIteration:
            break
        waits.append(time.perf_counter() - began)
        (keep_busy if options.cpu else time.sleep)(options.think_ms / 1e3)
        weight.grad = batch.mean(0)
        optimizer.step()
        ends.append(time.perf_counter())
    steps = [b - a for a, b in zip(ends, ends[1:])]
    print(json.dumps({"waits": waits, "steps": steps}))


if __name__ == "__main__":
    main()
