# SPDX-License-Identifier: Apache-2.0
"""Physics-informed network for the heat equation: double precision, as the solver it replaces had."""

import argparse

import torch
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--points", type=int, default=4000)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--depth", type=int, default=4)
parser.add_argument("--steps", type=int, default=80)
parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
parser.add_argument("--tf32", action="store_true")
parser.add_argument("--log-every", type=int, default=25)
args = parser.parse_args()
torch.manual_seed(0)
torch.set_default_dtype(getattr(torch, args.dtype))
torch.set_float32_matmul_precision("high" if args.tf32 else "highest")

layers = [nn.Linear(2, args.width), nn.Tanh()]
for _ in range(args.depth):
    layers += [nn.Linear(args.width, args.width), nn.Tanh()]
net = nn.Sequential(*layers, nn.Linear(args.width, 1)).cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
meter = Meter(10, args.points, torch.cuda.synchronize)
for step in range(args.steps):
    at = torch.rand(args.points, 2, device="cuda", requires_grad=True)
    u = net(at)
    (first,) = torch.autograd.grad(u.sum(), at, create_graph=True)
    (second,) = torch.autograd.grad(first[:, 1].sum(), at, create_graph=True)
    residual = first[:, 0] - 0.1 * second[:, 1]
    boundary = torch.rand(args.points // 10, 2, device="cuda")
    loss = residual.pow(2).mean() + (net(boundary).squeeze(1) - torch.sin(boundary[:, 1])).pow(2).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % args.log_every == 0:
        print(f"{step:5d} {loss.item():.3e}")
    meter.step()
meter.print()
