# SPDX-License-Identifier: Apache-2.0
"""Accelerate with gradient accumulation; samples come from a labelling service with a delay."""

import argparse
import time

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Labelled(Dataset):
    def __init__(self, count, ms):
        self.count, self.seconds = count, ms / 1e3

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((64,), index / self.count), index % 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--service-ms", type=float, default=6)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--batches", type=int, default=320)
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.accumulate)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Labelled(args.batches * args.batch_size, args.service_ms)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, args.batch_size, shuffle=True, num_workers=args.num_workers))
    meter = Meter(20, args.batch_size * args.accumulate)
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            meter.step()
    accelerator.print(f"loss {loss.item():.3f}")
    meter.print()


if __name__ == "__main__":
    main()
