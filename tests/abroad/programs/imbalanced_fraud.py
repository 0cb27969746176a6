# SPDX-License-Identifier: Apache-2.0
"""Card fraud, 1 in 200: a sampler of the author's own draws each index with numpy, so that both classes appear equally often."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler, WeightedRandomSampler


class Transactions(Dataset):
    """Amounts, times and 64 anonymous columns. Skewed ones are clipped and scaled when a row is read."""

    def __init__(self, rows):
        random = np.random.default_rng(0)
        self.rows = random.lognormal(size=(rows, 66)).astype(np.float32)
        self.fraud = (random.random(rows) < 0.005).astype(np.int64)
        self.mean, self.spread = self.rows.mean(0), self.rows.std(0)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = (self.rows[index] - self.mean) / self.spread
        return torch.from_numpy(np.clip(row, -5, 5)), self.fraud[index]


class BalancedSampler(Sampler):
    def __init__(self, labels, count):
        share = np.bincount(labels) / len(labels)
        weights = 1 / share[labels]
        self.weights, self.count = weights / weights.sum(), count

    def __len__(self):
        return self.count

    def __iter__(self):
        for _ in range(self.count):
            yield int(np.random.choice(len(self.weights), p=self.weights))


class Detector(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.enter = nn.Linear(66, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, width),
                nn.GELU(),
                nn.Dropout(0.1),
                nn.Linear(width, width),
            )
            for _ in range(blocks)
        )
        self.leave = nn.Linear(width, 2)

    def forward(self, x):
        x = self.enter(x)
        for block in self.blocks:
            x = x + block(x)
        return self.leave(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=80_000)
    parser.add_argument(
        "--sampler",
        choices=["balanced", "weighted"],
        default="balanced",
        help="weighted: PyTorch's WeightedRandomSampler",
    )
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--steps", type=int, default=220)
    args = parser.parse_args()
    np.random.seed(0)
    torch.manual_seed(0)
    data = Transactions(args.rows)
    drawn = args.steps * args.batch_size
    if args.sampler == "weighted":
        share = np.bincount(data.fraud) / len(data)
        sampler = WeightedRandomSampler(torch.from_numpy(1 / share[data.fraud]), drawn)
    else:
        sampler = BalancedSampler(data.fraud, drawn)
    extra = {"prefetch_factor": args.prefetch_factor} if args.num_workers else {}
    loader = DataLoader(
        data, args.batch_size, sampler=sampler, num_workers=args.num_workers, **extra
    )
    model = Detector(args.width, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    meter = Meter(20, args.batch_size)
    for step, (rows, fraud) in enumerate(loader):
        logits = model(rows)
        loss = F.cross_entropy(logits, fraud)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            found = (logits.argmax(1) == fraud).float().mean()
            print(f"{step:4d}  loss {loss.item():.4f}  accuracy {found.item():.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
