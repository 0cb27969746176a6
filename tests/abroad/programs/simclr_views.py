# SPDX-License-Identifier: Apache-2.0
"""SimCLR: two augmented views of each image, made with PIL and NumPy; contrastive loss on a small encoder."""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from PIL import Image, ImageEnhance, ImageFilter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class TwoViews(Dataset):
    def __init__(self, root, size, stored):
        self.files, self.size = sorted(Path(root).glob("*/*.jpg")), size
        self.images = [Image.open(file).convert("RGB").resize((size * 2, size * 2)) for file in self.files] if stored else None

    def __len__(self):
        return len(self.files)

    def view(self, image):
        side = random.randint(image.size[0] // 3, image.size[0])
        left, top = random.randint(0, image.size[0] - side), random.randint(0, image.size[1] - side)
        image = image.resize((self.size, self.size), Image.Resampling.BICUBIC, (left, top, left + side, top + side))
        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            image = enhance(image).enhance(random.uniform(0.6, 1.4))
        if random.random() < 0.5:
            image = image.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2)))
        return torch.from_numpy(np.asarray(image, np.float32) / 255).permute(2, 0, 1)

    def __getitem__(self, index):
        image = self.images[index] if self.images else Image.open(self.files[index]).convert("RGB")
        return self.view(image), self.view(image)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--images-in-memory", action="store_true", help="decode once, at the start")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TwoViews(args.data, args.size, args.images_in_memory), args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True, persistent_workers=args.workers > 0)
    encoder = nn.Sequential(nn.Conv2d(3, 24, 7, 4), nn.ReLU(), nn.Conv2d(24, 48, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 64))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-4)
    meter = Meter(len(loader), args.batch_size)
    for epoch in range(args.epochs):
        for first, second in loader:
            z = F.normalize(encoder(torch.cat([first, second])), dim=1)
            similar = z @ z.t() / 0.5 - 1e9 * torch.eye(len(z))
            wanted = torch.arange(len(z)).roll(len(z) // 2)
            loss = F.cross_entropy(similar, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.step()
        print(f"Epoch {epoch}: {loss.item():.4f}")
    meter.print()


if __name__ == "__main__":
    main()
