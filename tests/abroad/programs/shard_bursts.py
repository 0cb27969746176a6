# SPDX-License-Identifier: Apache-2.0
"""DLIO-like reader: every so many batches the next shard is downloaded, then its batches come quickly. Training computes on the
accelerator for a fixed time (slept, as that benchmark does)."""

import argparse
import time

import torch
from meter import Meter
from torch.utils.data import DataLoader, Dataset


class Shards(Dataset):
    def __init__(self, batches, per_shard, open_ms, read_ms):
        self.batches, self.per_shard, self.open_ms, self.read_ms = batches, per_shard, open_ms, read_ms

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        first = index % self.per_shard == 0
        time.sleep((self.open_ms if first else self.read_ms) / 1e3)
        return torch.zeros(16, 1024)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--batches-per-shard", type=int, default=16)
    parser.add_argument("--open-ms", type=float, default=300)
    parser.add_argument("--read-ms", type=float, default=3)
    parser.add_argument("--compute-ms", type=float, default=25)
    parser.add_argument("--batches", type=int, default=272)
    args = parser.parse_args()
    extra = {"prefetch_factor": args.prefetch_factor} if args.workers else {}
    loader = DataLoader(Shards(args.batches, args.batches_per_shard, args.open_ms, args.read_ms), batch_size=None, num_workers=args.workers, **extra)
    model = torch.nn.Linear(1024, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    meter = Meter(32, 16)
    for x in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(args.compute_ms / 1e3)
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
