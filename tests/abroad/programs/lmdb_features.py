# SPDX-License-Identifier: Apache-2.0
"""Image-text matching on features stored in LMDB; the store is fast, the model is not."""

import argparse

import lmdb
import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Features(Dataset):
    def __init__(self, path):
        self.path, self.store = path, None

    def __len__(self):
        return 5000

    def __getitem__(self, index):
        if self.store is None:
            self.store = lmdb.open(self.path, readonly=True, lock=False, readahead=False).begin(buffers=True)
        return torch.from_numpy(np.frombuffer(self.store.get(f"{index:06}".encode()), np.float32).copy())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lmdb", required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--steps", type=int, default=90)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Features(args.lmdb), args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True, persistent_workers=args.workers > 0)

    def tower():
        return nn.Sequential(nn.Linear(1024, args.hidden), nn.GELU(), nn.Linear(args.hidden, args.hidden), nn.GELU(), nn.Linear(args.hidden, 128))

    left, right = tower(), tower()
    optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=1e-3)
    meter, step = Meter(20, args.batch_size), 0
    while step < args.steps:
        for features in loader:
            a, b = F.normalize(left(features)), F.normalize(right(features + 0.1 * torch.randn_like(features)))
            loss = F.cross_entropy(a @ b.t() * 10, torch.arange(len(a)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 25 == 0:
                print(step, loss.item())
            meter.step()
            step += 1
            if step == args.steps:
                break
    meter.print()


if __name__ == "__main__":
    main()
