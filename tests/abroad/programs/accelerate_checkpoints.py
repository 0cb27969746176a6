# SPDX-License-Identifier: Apache-2.0
"""Accelerate: the usual five changed lines, and accelerator.save_state() every few steps."""

import argparse
import tempfile

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpointing-steps", type=int, default=10)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--hidden", type=int, default=1800)
    parser.add_argument("--steps", type=int, default=120)
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(128, args.hidden), nn.ReLU(), nn.Linear(args.hidden, args.hidden), nn.ReLU(), nn.Linear(args.hidden, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.rand(args.steps * 4, 128), torch.arange(args.steps * 4) % 10)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, 4, shuffle=True, num_workers=args.workers))
    meter = Meter(20, 4)
    with tempfile.TemporaryDirectory() as folder:
        for step, (x, y) in enumerate(loader, 1):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if step % args.checkpointing_steps == 0:
                accelerator.save_state(folder)
                accelerator.print(f"step {step}: {loss.item():.3f}, saved")
            meter.step()
    meter.print()


if __name__ == "__main__":
    main()
