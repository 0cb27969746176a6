# SPDX-License-Identifier: Apache-2.0
"""Land cover from hyperspectral scenes: the neighbourhood of a pixel is cut out of a compressed .npz file for each sample."""

import argparse
from pathlib import Path

import numpy as np
import torch
from einops.layers.torch import Rearrange
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pixels(Dataset):
    def __init__(self, folder, radius=3, load_once=False):
        self.radius, self.load_once = radius, load_once
        self.paths = sorted(Path(folder).glob("scene*.npz"))
        self.size = np.load(self.paths[0])["classes"].shape[0] - 2 * radius
        self.scenes = None

    def open(self):
        scenes = [np.load(path) for path in self.paths]
        return [dict(scene.items()) for scene in scenes] if self.load_once else scenes

    def __len__(self):
        return len(self.paths) * self.size**2

    def __getitem__(self, index):
        if self.scenes is None:  # zip files cannot be shared by processes
            self.scenes = self.open()
        number, rest = divmod(index, self.size**2)
        row, column = divmod(rest, self.size)
        scene, width = self.scenes[number], 2 * self.radius + 1
        patch = scene["cube"][row : row + width, column : column + width]
        label = scene["classes"][row + self.radius, column + self.radius]
        return torch.from_numpy(patch.astype(np.float32) / 4096 - 0.5), int(label)


def network(width, bands=64, classes=9):
    return nn.Sequential(
        Rearrange("b h w s -> b 1 s h w"),
        nn.Conv3d(1, width, (7, 3, 3), stride=(2, 1, 1)),
        nn.BatchNorm3d(width),
        nn.ReLU(),
        nn.Conv3d(width, 2 * width, (5, 3, 3), stride=(2, 1, 1)),
        nn.BatchNorm3d(2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d((4, 1, 1)),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("-j", "--jobs", type=int, default=0)
    parser.add_argument("-b", "--batch-size", type=int, default=16)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--load-once", action="store_true", help="decompress the scenes at the start")
    parser.add_argument("--radius", type=int, default=3)
    parser.add_argument("--steps", type=int, default=90)
    args = parser.parse_args()
    torch.manual_seed(1)

    pixels = Pixels(args.folder, args.radius, args.load_once)
    loader = DataLoader(
        pixels, batch_size=args.batch_size, shuffle=True, num_workers=args.jobs, prefetch_factor=args.prefetch_factor if args.jobs else None
    )
    net = network(12)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    right = seen = 0
    meter = Meter(10, args.batch_size)
    batches = iter(loader)
    for step in range(args.steps):
        patches, labels = next(batches)
        scores = net(patches)
        loss = nn.functional.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        right, seen = right + (scores.argmax(1) == labels).sum(), seen + len(labels)
        if (step + 1) % 15 == 0:
            print(f"[{step + 1:4}] loss {loss:.3f}, accuracy {100 * right / seen:.1f}%")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
