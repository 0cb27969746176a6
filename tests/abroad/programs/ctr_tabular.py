# SPDX-License-Identifier: Apache-2.0
"""Click-through rate from categorical and numeric columns held in memory: embeddings and an MLP, small batches."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--columns", type=int, default=24)
parser.add_argument("--dim", type=int, default=16)
parser.add_argument("--steps", type=int, default=600)
parser.add_argument("--optimizer", choices=["for-loop", "foreach", "fused"], default="foreach")
parser.add_argument("--amp", action="store_true")
parser.add_argument("--log-every", type=int, default=100)
args = parser.parse_args()
torch.manual_seed(0)

rows = 1 << 16
categories = torch.randint(0, 1000, (rows, args.columns), device="cuda")
numbers = torch.rand(rows, 13, device="cuda")
clicks = torch.randint(0, 2, (rows,), device="cuda").float()


class WideAndDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(1000, args.dim) for _ in range(args.columns)])
        self.deep = nn.Sequential(nn.Linear(args.columns * args.dim + 13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, categories, numbers):
        embedded = [table(categories[:, column]) for column, table in enumerate(self.tables)]
        return self.deep(torch.cat([*embedded, numbers], dim=1)).squeeze(1)


model = WideAndDeep().cuda()
how = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[args.optimizer]
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **how)
meter = Meter(30, args.batch_size, torch.cuda.synchronize)
for step in range(args.steps):
    at = (step * args.batch_size) % (rows - args.batch_size + 1)
    chosen = slice(at, at + args.batch_size)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.amp):
        logits = model(categories[chosen], numbers[chosen])
    loss = F.binary_cross_entropy_with_logits(logits.float(), clicks[chosen])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % args.log_every == 0:
        print(step, loss.item())
    meter.step()
meter.print()
