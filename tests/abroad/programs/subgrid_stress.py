# SPDX-License-Identifier: Apache-2.0
"""A closure for large-eddy simulations: the stress of the scales that a coarse grid does not resolve, from the filtered velocity (fp16, with its own loss scale)."""

import argparse
import math

import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F


def make_flow(fields, size, seed=9):
    """Snapshots of a random solenoidal flow on a periodic grid: velocity and the three components of the stress."""
    torch.manual_seed(seed)
    psi = sum(F.interpolate(torch.randn(fields, 1, size // s, size // s), size=(size, size), mode="bilinear") * s for s in (4, 8, 16))
    u = psi.roll(-1, 2) - psi.roll(1, 2)
    v = psi.roll(1, 3) - psi.roll(-1, 3)
    velocity = torch.cat([u, v], 1)
    products = torch.cat([u * u, u * v, v * v], 1)

    def smooth(x):
        return F.avg_pool2d(F.pad(x, (2, 2, 2, 2), mode="circular"), 5, 1)

    filtered = smooth(velocity)
    stress = smooth(products) - torch.cat([filtered[:, :1] ** 2, filtered[:, :1] * filtered[:, 1:], filtered[:, 1:] ** 2], 1)
    return filtered / filtered.std(), stress / stress.std()


def shifted(fields, rows, grid):
    """The chosen snapshots, each moved on the periodic grid by a random distance."""
    distances = torch.randint(grid, (len(rows), 2)).tolist()
    return torch.stack([fields[row].roll(distance, (1, 2)) for row, distance in zip(rows.tolist(), distances)])


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.gain = nn.Parameter(torch.full((1, width, 1, 1), 0.1))

    def forward(self, x):
        return x + self.gain * self.conv2(F.silu(self.conv1(self.norm(x))))


class Closure(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.lift = nn.Conv2d(2, width, 3, padding=1)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        return self.head(self.blocks(self.lift(x)))


class Guard:
    """Loss scale, clipping and early stopping."""

    def __init__(self, max_norm, patience, scale=2.0**12, growth=500):
        self.max_norm, self.patience, self.scale, self.growth = max_norm, patience, scale, growth
        self.best, self.since_best, self.good, self.bad = math.inf, 0, 0, 0

    def watch_loss(self, loss, steps):
        if torch.isnan(loss):
            self.bad += 1
        value = loss.item()
        if value < self.best:
            self.best, self.since_best = value, 0
        else:
            self.since_best += steps

    def watch_norm(self, norm, steps):
        if math.isfinite(norm.item()):
            self.good += steps
        else:
            self.good, self.scale = 0, max(self.scale / 2, 1.0)
        if self.good >= self.growth:
            self.good, self.scale = 0, min(self.scale * 2, 2.0**16)

    def norm_of(self, gradients):
        return torch.stack([gradient.norm() for gradient in gradients]).norm() / self.scale

    def clip(self, gradients, norm):
        factor = (self.max_norm / (norm + 1e-6)).clamp(max=1.0) / self.scale
        torch._foreach_mul_(gradients, torch.nan_to_num(factor))

    def finished(self):
        return self.since_best > self.patience


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--fields", type=int, default=512)
    ap.add_argument("--grid", type=int, default=64)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--width", type=int, default=64)
    ap.add_argument("--depth", type=int, default=8)
    ap.add_argument("--steps", type=int, default=900)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--max-norm", type=float, default=1.0)
    ap.add_argument("--patience", type=int, default=20_000, help="steps without a better loss")
    ap.add_argument("--check-every", type=int, default=1, help="steps between two looks at loss and gradient")
    ap.add_argument("--fused", action="store_true")
    ap.add_argument("--benchmark", action="store_true")
    ap.add_argument("--log-every", type=int, default=100)
    args = ap.parse_args()

    torch.manual_seed(9)
    torch.backends.cudnn.benchmark = args.benchmark
    fields = torch.cat(make_flow(args.fields, args.grid), 1).to("cuda")
    net = Closure(args.width, args.depth).to("cuda")
    parameters = list(net.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=args.lr, weight_decay=1e-4, fused=args.fused or None)
    guard = Guard(args.max_norm, args.patience)
    meter = Meter(30, args.batch_size, torch.cuda.synchronize)
    for step in range(1, args.steps + 1):
        rows = torch.randint(args.fields, (args.batch_size,))
        coarse, wanted = shifted(fields, rows, args.grid).split([2, 3], 1)
        look = step % args.check_every == 0
        with torch.autocast("cuda", torch.float16):
            predicted = net(coarse)
        loss = F.mse_loss(predicted.float(), wanted)
        if look:
            guard.watch_loss(loss, args.check_every)
        optimizer.zero_grad()
        (loss * guard.scale).backward()
        gradients = [p.grad for p in parameters]
        norm = guard.norm_of(gradients)
        if look:
            guard.watch_norm(norm, args.check_every)
        guard.clip(gradients, norm)
        optimizer.step()
        if step % args.log_every == 0:
            print(f"step {step} loss {loss.item():.4f} scale {guard.scale:.0f} bad {guard.bad}")
        meter.step()
        if guard.finished():
            break
    meter.print()


if __name__ == "__main__":
    main()
