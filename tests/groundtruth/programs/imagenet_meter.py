# SPDX-License-Identifier: Apache-2.0
"""Trains on a folder of images and prints its own "Data" time, as ImageNet scripts do: averages of the time from the end of a
step until the next batch is there, printed every few steps. Knows nothing of gpuwatch."""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Meter:
    """Last value and running average."""

    def __init__(self, name):
        self.name, self.last, self.sum, self.count = name, 0.0, 0.0, 0

    def update(self, value):
        self.last = value
        self.sum += value
        self.count += 1

    def __str__(self):
        return f"{self.name} {self.last:6.3f} ({self.sum / self.count:.6f})"


class Images(Dataset):
    def __init__(self, root, side):
        self.paths = sorted(root.glob("*/*.jpg"))
        self.side = side

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as image:
            image = image.convert("RGB").resize((self.side, self.side), Image.Resampling.BICUBIC)
        return torch.from_numpy(np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255.0), index % 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--step-ms", type=float, default=100, help="the computing of a step is padded to this by a sleep")
    parser.add_argument("--print-freq", type=int, default=4)
    options = parser.parse_args()

    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()
    loader = DataLoader(Images(options.data, 64), options.batch_size, shuffle=True, num_workers=options.workers)

    batch_time, data_time = Meter("Time"), Meter("Data")
    end = time.time()
    for i, (images, target) in enumerate(loader):
        data_time.update(time.time() - end)
        began = time.time()
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        time.sleep(max(0.0, options.step_ms / 1e3 - (time.time() - began)))
        optimizer.step()
        batch_time.update(time.time() - end)
        end = time.time()
        if (i + 1) % options.print_freq == 0 or i + 1 == len(loader):
            print(f"Epoch: [0][{i + 1}/{len(loader)}]\t{batch_time}\t{data_time}", flush=True)


if __name__ == "__main__":
    main()
