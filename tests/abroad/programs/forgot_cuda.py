# SPDX-License-Identifier: Apache-2.0
"""Time-series forecaster on a machine with a GPU."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--channels", type=int, default=96)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(0)
device = torch.device(args.device)
series = torch.randn(args.steps * args.batch_size, 1, 96)
loader = DataLoader(TensorDataset(series), args.batch_size, num_workers=args.workers)
layers, width = [], 1
for dilation in (1, 2, 4, 8):
    layers += [nn.Conv1d(width, args.channels, 3, dilation=dilation, padding=dilation), nn.ReLU()]
    width = args.channels
model = nn.Sequential(*layers, nn.Conv1d(width, 1, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
meter = Meter(10, args.batch_size, torch.cuda.synchronize if args.device == "cuda" else lambda: None)
for step, (batch,) in enumerate(loader):
    batch = batch.to(device)
    loss = F.mse_loss(model(batch[:, :, :-1]), batch[:, :, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
    meter.step()
meter.print()
