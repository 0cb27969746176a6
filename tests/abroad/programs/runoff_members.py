# SPDX-License-Identifier: Apache-2.0
"""Corrects ensemble forecasts of the runoff of catchments. A generator turns weather, catchment and noise into members for the next
ten days, and is judged by the continuous ranked probability score of the ensemble."""

import argparse
import math
from typing import NamedTuple

import torch
from meter import Meter
from torch import Tensor, nn

LEADS = 10


class Batch(NamedTuple):
    weather: Tensor
    catchment: Tensor
    runoff: Tensor


def archive(days, variables, catchments, device):
    """Forecasts of the past and what the gauges read afterwards."""
    weather = torch.randn(days, variables, device=device)
    catchment = torch.randint(catchments, (days,), device=device)
    runoff = torch.nn.functional.softplus(weather[:, :LEADS].cumsum(1) + 0.1 * torch.randn(days, LEADS, device=device))
    return Batch(weather, catchment, runoff)


def batches(data, batch_size, steps):
    days = len(data.catchment)
    for _ in range(steps):
        rows = torch.randint(days, (batch_size,), device=data.weather.device)
        yield Batch(*(part[rows] for part in data))


class Generator(nn.Module):
    def __init__(self, variables, catchments, hidden, depth, noise):
        super().__init__()
        self.noise = noise
        self.catchment = nn.Embedding(catchments, 64)
        self.first = nn.Linear(variables + 64 + noise, hidden)
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden)) for _ in range(depth)]
        )
        self.last = nn.Linear(hidden, LEADS)

    def forward(self, batch, members):
        """Batch, members, leads."""
        known = torch.cat([batch.weather, self.catchment(batch.catchment)], 1)
        known = known[:, None].expand(-1, members, -1)
        x = self.first(torch.cat([known, torch.randn(*known.shape[:2], self.noise, device=known.device)], 2))
        for block in self.blocks:
            x = x + block(x)
        return nn.functional.softplus(self.last(x))


def skill(members, runoff):
    """How far the members are from what was observed."""
    return (members - runoff[:, None]).abs().mean()


def spread_by_pairs(members):
    """How far the members are from each other."""
    count, total = members.shape[1], 0.0
    for first in range(count):
        for second in range(first + 1, count):
            total = total + (members[:, first] - members[:, second]).abs().mean()
    return 2 * total / (count * (count - 1))


def spread_by_member(members):
    """Each member against all that follow."""
    count, total = members.shape[1], 0.0
    for first in range(count - 1):
        total = total + (members[:, first + 1 :] - members[:, first : first + 1]).abs().mean((0, 2)).sum()
    return 2 * total / (count * (count - 1))


def spread_by_table(members):
    """The differences of all members as one array."""
    count = members.shape[1]
    return (members[:, :, None] - members[:, None]).abs().mean() * count / (count - 1)


def spread_by_rank(members):
    """Sorted members need no pairs: in how many differences is a member the larger one?"""
    count = members.shape[1]
    weights = 2 * torch.arange(count, device=members.device) - count + 1
    return 2 * (members.sort(1).values * weights[:, None]).sum(1).mean() / (count * (count - 1))


SPREADS = {"pairs": spread_by_pairs, "member": spread_by_member, "table": spread_by_table, "rank": spread_by_rank}


def cosine(step, total, warmup=20):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 + 0.5 * math.cos(math.pi * (step - warmup) / max(1, total - warmup))


def train(args):
    torch.manual_seed(53)
    torch.set_float32_matmul_precision(args.matmul)
    device = torch.device("cuda")
    data = archive(args.days, args.variables, args.catchments, device)
    generator = Generator(args.variables, args.catchments, args.hidden, args.depth, args.noise).to(device)
    optimizer = torch.optim.AdamW(generator.parameters(), lr=args.lr, weight_decay=1e-4, fused=args.fused or None)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: cosine(step, args.steps))
    spread, meter = SPREADS[args.spread], Meter(15, args.batch_size, torch.cuda.synchronize)
    sums = torch.zeros(2, device=device)
    for step, batch in enumerate(batches(data, args.batch_size, args.steps)):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.bf16):
            members = generator(batch, args.members)
        members = members.float()
        distance, width = skill(members, batch.runoff), spread(members)
        loss = distance - 0.5 * width
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        sums += torch.stack([loss.detach(), width.detach()])
        if step % args.print_every == args.print_every - 1:
            score, width = (sums / args.print_every).tolist()
            print(f"step {step + 1:4d}  CRPS {score:.4f}  spread {width:.4f}  lr {schedule.get_last_lr()[0]:.2e}")
            sums.zero_()
        meter.step()
    meter.print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--days", type=int, default=100_000)
    parser.add_argument("--variables", type=int, default=96)
    parser.add_argument("--catchments", type=int, default=531)
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--noise", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=768)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--spread", choices=sorted(SPREADS), default="pairs")
    parser.add_argument("--matmul", choices=["highest", "high"], default="high")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--print-every", type=int, default=50)
    train(parser.parse_args())
