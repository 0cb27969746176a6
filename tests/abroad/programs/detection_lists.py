# SPDX-License-Identifier: Apache-2.0
"""Key points: annotations come as Python lists of numbers and are collated by the default function."""

import argparse
import random

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class KeyPoints(Dataset):
    def __init__(self, count, points, tensors):
        dice = random.Random(0)
        self.annotations = [[dice.random() for _ in range(points)] for _ in range(64)]
        if tensors:
            self.annotations = [torch.tensor(one) for one in self.annotations]
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        points = self.annotations[index % 64]
        return {"points": points, "label": index % 2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tensors", action="store_true", help="keep annotations as tensors")
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(KeyPoints(args.steps * args.batch_size, args.points, args.tensors), args.batch_size, shuffle=True, num_workers=args.workers)
    model = nn.Sequential(nn.Linear(args.points, 256), nn.ReLU(), nn.Linear(256, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    meter = Meter(20, args.batch_size)
    for step, batch in enumerate(loader):
        points = batch["points"]
        x = points.float() if torch.is_tensor(points) else torch.stack(points, 1).float()
        loss = F.cross_entropy(model(x), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(step, loss.item())
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
