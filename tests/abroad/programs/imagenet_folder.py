# SPDX-License-Identifier: Apache-2.0
"""The ImageNet example without torchvision: JPEG files in a folder for each class, random crops and flips with PIL, a small network."""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("-j", "--workers", type=int, default=0)
parser.add_argument("-b", "--batch-size", type=int, default=16)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--draft", action="store_true", help="let libjpeg decode at half or quarter size")
parser.add_argument("--print-freq", type=int, default=25)


class ImageFolder(Dataset):
    def __init__(self, root, draft):
        self.files = sorted(Path(root).glob("*/*.jpg"))
        self.classes = sorted({file.parent.name for file in self.files})
        self.draft = draft

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path = self.files[index]
        with Image.open(path) as image:
            if self.draft:
                image.draft("RGB", (80, 80))
            image = image.convert("RGB")
        edge = min(image.size)
        side = random.randint(edge // 2, edge)
        left, top = random.randint(0, image.size[0] - side), random.randint(0, image.size[1] - side)
        image = image.resize((64, 64), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div_(255)
        return (pixels - 0.45) / 0.225, self.classes.index(path.parent.name)


def main():
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(ImageFolder(args.data, args.draft), args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 5, 4, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    meter, step = Meter(len(loader), args.batch_size), 0
    while step < args.steps:
        for images, target in loader:
            loss = F.cross_entropy(model(images), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.print_freq == 0:
                print(f"[{step}] loss {loss.item():.4f}")
            step += 1
            meter.step()
    meter.print()


if __name__ == "__main__":
    main()
