# SPDX-License-Identifier: Apache-2.0
"""A training script whose samples are in memory: a worker costs more than it saves, and there are several for each CPU."""

import argparse
import os

import torch
from torch.utils.data import DataLoader, TensorDataset
from training import Clock


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers-of-cpu", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()

    samples = TensorDataset(torch.randn(4800, 64), torch.randint(0, 5, (4800,)))
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 5))
    optimizer = torch.optim.Adam(model.parameters())
    workers = options.workers_of_cpu * len(os.sched_getaffinity(0))
    loader = DataLoader(samples, 64, shuffle=True, num_workers=workers)
    clock = Clock()
    for _ in range(options.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            clock.end_step()
    clock.print_times()


if __name__ == "__main__":
    main()
