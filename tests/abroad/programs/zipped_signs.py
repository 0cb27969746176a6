# SPDX-License-Identifier: Apache-2.0
"""Traffic signs: the images stay in the zip file that was downloaded, on the department's file server, and are read out of it one by one."""

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from PIL import Image, ImageOps
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ZippedImages(Dataset):
    def __init__(self, path, size, in_memory):
        self.path, self.size, self.archive = path, size, None
        self.content = path.read_bytes() if in_memory else None
        with zipfile.ZipFile(path) as archive:
            self.names = sorted(
                name for name in archive.namelist() if name.endswith(".jpg")
            )

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        if self.archive is None:  # a handle for each worker
            self.archive = zipfile.ZipFile(
                io.BytesIO(self.content) if self.content else self.path
            )
        name = self.names[index]
        image = Image.open(io.BytesIO(self.archive.read(name))).convert("RGB")
        image = ImageOps.autocontrast(
            image.resize((self.size + 8, self.size + 8), Image.Resampling.BILINEAR)
        )
        left, top = np.random.randint(0, 8, 2)
        pixels = (
            np.asarray(
                image.crop((left, top, left + self.size, top + self.size)), np.float32
            )
            / 255
        )
        return torch.from_numpy(pixels).permute(2, 0, 1), int(name.split("/")[0])


class Signs(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 5, 2, 2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, 1, 1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 4 * width, 3, 1, 1),
            nn.ReLU(),
        )
        self.classify = nn.Linear(4 * width, 43)

    def forward(self, x):
        return self.classify(self.features(x).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--archive", type=Path, required=True)
    parser.add_argument(
        "--in-memory", action="store_true", help="read the whole archive first"
    )
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=110)
    args = parser.parse_args()
    torch.manual_seed(0)
    extra = {"prefetch_factor": args.prefetch_factor} if args.num_workers else {}
    loader = DataLoader(
        ZippedImages(args.archive, args.size, args.in_memory),
        args.batch_size,
        shuffle=True,
        num_workers=args.num_workers,
        drop_last=True,
        **extra,
    )
    model = Signs(args.width)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.1, total_steps=args.steps
    )
    meter = Meter(20, args.batch_size)
    for step, (images, signs) in zip(range(args.steps), loader):
        loss = F.cross_entropy(model(images), signs, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(
                f"{step}/{args.steps} loss {loss.item():.3f} lr {schedule.get_last_lr()[0]:.4f}"
            )
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
