# SPDX-License-Identifier: Apache-2.0
"""Statistical downscaling: patches of coarse weather fields and the rain on the fine grid below them. One .npy file a day, as the export
of the reanalysis left them."""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from meter import Meter
from torch.utils.data import DataLoader, Dataset

VARIABLES = ("t2m", "u10", "v10", "q850", "z500", "tp")


class DailyFields(Dataset):
    """Random crops. A file holds (variable, latitude, longitude); the last variable is what is predicted."""

    def __init__(self, root, crop, crops_per_day, mmap=False):
        self.days = sorted(Path(root).glob("day_*.npy"))
        self.crop, self.crops_per_day = crop, crops_per_day
        self.mmap_mode = "r" if mmap else None
        stats = np.load(Path(root) / "stats.npz")
        self.mean, self.std = stats["mean"][:, None, None], stats["std"][:, None, None]

    def __len__(self):
        return len(self.days) * self.crops_per_day

    def __getitem__(self, idx):
        field = np.load(self.days[idx % len(self.days)], mmap_mode=self.mmap_mode)
        _, nlat, nlon = field.shape
        lat = torch.randint(nlat - self.crop, (1,)).item()
        lon = torch.randint(nlon - self.crop, (1,)).item()
        window = field[:, lat : lat + self.crop, lon : lon + self.crop]
        window = torch.from_numpy((window - self.mean) / self.std).float()
        coarse = F.avg_pool2d(window, 4)
        return coarse, window[-1:]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GELU(), nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x):
        return x + self.body(x)


def build_model(width, depth):
    return nn.Sequential(
        nn.Conv2d(len(VARIABLES), width, 3, padding=1),
        *[Block(width) for _ in range(depth)],
        nn.Conv2d(width, 16, 3, padding=1),
        nn.PixelShuffle(4),
    )


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--root", required=True)
    p.add_argument("--mmap", action="store_true", help="memory-map the daily files")
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--prefetch-factor", type=int, default=2)
    p.add_argument("--crop", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--width", type=int, default=48)
    p.add_argument("--depth", type=int, default=3)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=5e-4)
    args = p.parse_args()

    torch.manual_seed(42)
    dataset = DailyFields(args.root, args.crop, 64, args.mmap)
    loader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
        prefetch_factor=args.prefetch_factor if args.workers else None,
    )
    model = build_model(args.width, args.depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(loader))
    meter = Meter(10, args.batch_size)
    for epoch in range(args.epochs):
        running = 0.0
        for coarse, rain in loader:
            optimizer.zero_grad()
            loss = F.l1_loss(model(coarse), rain)
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item()
            meter.step()
        print(f"epoch {epoch}  mae {running / len(loader):.4f}")
    meter.print()


if __name__ == "__main__":
    main()
