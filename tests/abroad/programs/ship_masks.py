# SPDX-License-Identifier: Apache-2.0
"""A competition baseline: ships in satellite photos, masks as run lengths in one CSV file with a row for each ship."""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from meter import Meter
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 256


def rle_decode(runs):
    flat = np.zeros(SIZE * SIZE, np.uint8)
    numbers = np.array(runs.split(), int)
    for start, length in zip(numbers[::2] - 1, numbers[1::2]):
        flat[start : start + length] = 1
    return flat.reshape(SIZE, SIZE).T


class Ships(Dataset):
    def __init__(self, folder, crop, group_once):
        self.folder, self.crop = folder, crop
        self.files = sorted(file.name for file in (folder / "images").iterdir())
        self.masks = pd.read_csv(folder / "ship_segmentations.csv")
        self.by_image = None
        if group_once:
            present = self.masks[self.masks["ImageId"].isin(self.files)].dropna()
            self.by_image = {
                name: list(rows)
                for name, rows in present.groupby("ImageId")["EncodedPixels"]
            }

    def __len__(self):
        return len(self.files)

    def runs_of(self, name):
        if self.by_image is not None:
            return self.by_image.get(name, [])
        return self.masks[self.masks["ImageId"] == name]["EncodedPixels"].dropna()

    def __getitem__(self, index):
        name = self.files[index]
        image = np.asarray(Image.open(self.folder / "images" / name).convert("RGB"))
        mask = np.zeros((SIZE, SIZE), np.uint8)
        for runs in self.runs_of(name):
            mask |= rle_decode(runs)
        top, left = np.random.randint(0, SIZE - self.crop, 2)
        image, mask = (
            one[top : top + self.crop, left : left + self.crop] for one in (image, mask)
        )
        turns = np.random.randint(4)
        image, mask = np.rot90(image, turns), np.rot90(mask, turns)
        return torch.from_numpy(
            image.transpose(2, 0, 1).astype(np.float32) / 255
        ), torch.from_numpy(mask[None].astype(np.float32))


def block(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU()
    )


class SmallUNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down, self.middle, self.up = (
            block(3, width),
            block(width, 2 * width),
            block(3 * width, width),
        )
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x = F.avg_pool2d(x, 2)
        skip = self.down(x)
        middle = self.middle(F.max_pool2d(skip, 2))
        return F.interpolate(
            self.head(
                self.up(torch.cat([skip, F.interpolate(middle, scale_factor=2)], 1))
            ),
            scale_factor=2,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--group-once",
        action="store_true",
        help="a dictionary of masks by image, made at the start",
    )
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--crop", type=int, default=128)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(0)
    extra = (
        {"prefetch_factor": args.prefetch_factor, "persistent_workers": True}
        if args.num_workers
        else {}
    )
    loader = DataLoader(
        Ships(args.data, args.crop, args.group_once),
        args.batch_size,
        shuffle=True,
        num_workers=args.num_workers,
        drop_last=True,
        **extra,
    )
    model = SmallUNet(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    meter = Meter(len(loader), args.batch_size)
    for epoch in range(args.epochs):
        for image, mask in loader:
            logits = model(image)
            overlap = 2 * (logits.sigmoid() * mask).sum() + 1
            loss = (
                F.binary_cross_entropy_with_logits(logits, mask)
                + 1
                - overlap / (logits.sigmoid().sum() + mask.sum() + 1)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    meter.print()


if __name__ == "__main__":
    main()
