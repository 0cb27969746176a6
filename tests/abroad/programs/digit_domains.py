# SPDX-License-Identifier: Apache-2.0
"""Domain-adversarial training: digits with labels from one domain, digits on photographs without labels from another."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from meter import Meter
from torch.utils.data import DataLoader, Dataset


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.lambd * grad, None


def draw_digits(rng, count):
    """Ten smooth shapes, a little different in every picture."""
    coarse = rng.random((10, 7, 7), dtype=np.float32) > 0.55
    shapes = np.kron(coarse, np.ones((4, 4), np.float32))
    labels = rng.integers(0, 10, count)
    digits = shapes[labels] * rng.uniform(0.7, 1, (count, 1, 1)).astype(np.float32)
    return digits, labels


class Source(Dataset):
    def __init__(self, count, seed=0):
        self.digits, self.labels = draw_digits(np.random.default_rng(seed), count)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        dy, dx = np.random.randint(-3, 4, 2)
        digit = np.roll(self.digits[index], (dy, dx), (0, 1))
        return torch.from_numpy(digit).expand(3, 28, 28).contiguous(), int(self.labels[index])


class Target(Dataset):
    """The difference of a digit and a piece of a photograph."""

    def __init__(self, count, seed=1):
        rng = np.random.default_rng(seed)
        self.digits, _ = draw_digits(rng, count)
        self.photo = rng.random((3, 320, 480), dtype=np.float32)

    def __len__(self):
        return len(self.digits)

    def __getitem__(self, index):
        top, left = np.random.randint(0, 320 - 28), np.random.randint(0, 480 - 28)
        patch = self.photo[:, top : top + 28, left : left + 28]
        return torch.from_numpy(np.abs(patch - self.digits[index])), 0


class DANN(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 5, padding=2), nn.BatchNorm2d(width), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(width, 24, 5, padding=2), nn.BatchNorm2d(24), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        self.digit = nn.Sequential(nn.Linear(24 * 49, 100), nn.ReLU(), nn.Linear(100, 10))
        self.domain = nn.Sequential(nn.Linear(24 * 49, 100), nn.ReLU(), nn.Linear(100, 2))

    def forward(self, x, lambd):
        h = self.features(x)
        return self.digit(h), self.domain(Reverse.apply(h, lambd))


def cycle(loader):
    while True:
        yield from loader


parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=1, help="of the source loader")
parser.add_argument("--target-workers", type=int, default=2)
parser.add_argument("--persistent-workers", action="store_true")
parser.add_argument("--prefetch-factor", type=int, default=2)
parser.add_argument("--target-batches", choices=["next", "cycle"], default="next")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--print-every", type=int, default=20)
args = parser.parse_args()
torch.manual_seed(0)
np.random.seed(0)


def loader_of(data, workers):
    return DataLoader(
        data, args.batch_size, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=args.persistent_workers and workers > 0,
        prefetch_factor=args.prefetch_factor if workers else None,
    )  # fmt: skip


source_loader = loader_of(Source(args.steps * args.batch_size), args.workers)
target_loader = loader_of(Target(6000), args.target_workers)
target_iter = cycle(target_loader)
model = DANN()
opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
meter = Meter(6, args.batch_size)
for i, (xs, ys) in enumerate(source_loader):
    p = i / len(source_loader)
    lambd = 2 / (1 + np.exp(-10 * p)) - 1
    xt, _ = next(iter(target_loader)) if args.target_batches == "next" else next(target_iter)
    digits, domains = model(torch.cat([xs, xt]), lambd)
    where = torch.cat([torch.zeros(len(xs), dtype=torch.long), torch.ones(len(xt), dtype=torch.long)])
    label_loss, domain_loss = F.cross_entropy(digits[: len(xs)], ys), F.cross_entropy(domains, where)
    opt.zero_grad()
    (label_loss + domain_loss).backward()
    opt.step()
    if i % args.print_every == 0:
        print(f"{i}/{len(source_loader)} label {label_loss.item():.3f} domain {domain_loss.item():.3f} lambda {lambd:.2f}")
    meter.step()
meter.print()
