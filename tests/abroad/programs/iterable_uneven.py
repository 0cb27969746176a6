# SPDX-License-Identifier: Apache-2.0
"""Sharded IterableDataset: each worker reads its own log files; some records trigger a look-up that takes long."""

import argparse
import random
import time

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Logs(IterableDataset):
    def __init__(self, batches, batch, slow_ms):
        self.batches, self.batch, self.slow_ms = batches, batch, slow_ms

    def __iter__(self):
        info = get_worker_info()
        first, every = (info.id, info.num_workers) if info else (0, 1)
        for number in range(first, self.batches, every):
            dice = random.Random(number)
            time.sleep((self.slow_ms if dice.random() < 0.06 else 8 + 4 * dice.random()) / 1e3)
            yield torch.full((self.batch, 128), number / self.batches), torch.tensor([number % 4] * self.batch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--out-of-order", action="store_true")
    parser.add_argument("--slow-ms", type=float, default=250)
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    extra = {"prefetch_factor": args.prefetch_factor, "in_order": not args.out_of_order} if args.workers else {}
    loader = DataLoader(Logs(args.batches, args.batch_size, args.slow_ms), batch_size=None, num_workers=args.workers, **extra)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    meter = Meter(20, args.batch_size)
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(step, loss.item())
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
