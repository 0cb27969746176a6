# SPDX-License-Identifier: Apache-2.0
"""Samples lie in an object store and come over HTTP, one request each, as from S3 without a cache."""

import argparse
import os
import tempfile
import urllib.request

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __init__(self, url, objects, count, cache):
        self.url, self.objects, self.count, self.cache = url, objects, count, cache

    def __len__(self):
        return self.count

    def read(self, name):
        path = os.path.join(self.cache, name) if self.cache else None
        if path and os.path.exists(path):
            with open(path, "rb") as file:
                return file.read()
        with urllib.request.urlopen(f"{self.url}/{name}") as answer:
            data = answer.read()
        if path:
            with open(f"{path}.{os.getpid()}", "wb") as file:
                file.write(data)
            os.replace(f"{path}.{os.getpid()}", path)
        return data

    def __getitem__(self, index):
        data = np.frombuffer(self.read(f"{index % self.objects:05}.bin"), np.uint8)
        return torch.from_numpy(data.astype(np.float32)).view(4, 64, 64) / 255, index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--objects", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--cache", action="store_true", help="keep objects on the local disk")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=132)
    parser.add_argument("--warmup", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        dataset = Remote(args.url, args.objects, args.steps * args.batch_size, folder if args.cache else None)
        extra = {"prefetch_factor": args.prefetch_factor} if args.workers else {}
        loader = DataLoader(dataset, args.batch_size, num_workers=args.workers, **extra)
        model = nn.Sequential(nn.Conv2d(4, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        meter = Meter(args.warmup, args.batch_size)
        for step, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                print(f"step {step}: {loss.item():.4f}")
            meter.step()
        meter.print()


if __name__ == "__main__":
    main()
