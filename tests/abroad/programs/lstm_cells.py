# SPDX-License-Identifier: Apache-2.0
"""Sequence model written out as a loop over time: gates by hand, because the paper's cell is not in the library."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--length", type=int, default=40)
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--cuda-graph", action="store_true", help="capture forward and backward once and replay them")
parser.add_argument("--optimizer", choices=["for-loop", "foreach", "fused"], default="fused")
parser.add_argument("--log-every", type=int, default=50)
args = parser.parse_args()
torch.manual_seed(0)


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs, self.hidden = nn.Linear(64, 3 * args.hidden), nn.Linear(args.hidden, 3 * args.hidden, bias=False)

    def forward(self, x, h):
        a, b, c = (self.inputs(x) + self.hidden(h)).chunk(3, 1)
        forget = torch.sigmoid(a)
        return forget * h + (1 - forget) * torch.tanh(b) * torch.sigmoid(c)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = Cell(), nn.Linear(args.hidden, 10)

    def forward(self, sequence):
        h = sequence.new_zeros(sequence.shape[0], args.hidden)
        for x in sequence.unbind(1):
            h = self.cell(x, h)
        return self.head(h)


model = Model().cuda()
how = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[args.optimizer]
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=args.cuda_graph, **how)
data, labels = torch.randn(512, args.length, 64, device="cuda"), torch.randint(0, 10, (512,), device="cuda")
if args.cuda_graph:
    model = torch.cuda.make_graphed_callables(model, (data[: args.batch_size].clone(),))
meter = Meter(20, args.batch_size, torch.cuda.synchronize)
for step in range(args.steps):
    at = step * args.batch_size % max(1, 512 - args.batch_size + 1)
    loss = F.cross_entropy(model(data[at : at + args.batch_size]), labels[at : at + args.batch_size])
    optimizer.zero_grad(set_to_none=not args.cuda_graph)
    loss.backward()
    optimizer.step()
    if step % args.log_every == 0:
        print(step, loss.item())
    meter.step()
meter.print()
