# SPDX-License-Identifier: Apache-2.0
"""WebDataset: tar shards of JPEGs through wds.WebLoader."""

import argparse
import io

import numpy as np
import torch
import torch.nn.functional as F
import webdataset as wds
from meter import Meter
from PIL import Image
from torch import nn


def decode(sample):
    image = Image.open(io.BytesIO(sample["jpg"])).convert("RGB").resize((96, 96))
    pixels = np.asarray(image, np.float32) / 255
    return torch.from_numpy((pixels - pixels.mean()) / (pixels.std() + 1e-5)).permute(2, 0, 1), int(sample["cls"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=90)
    args = parser.parse_args()
    torch.manual_seed(0)
    dataset = wds.WebDataset(args.shards, shardshuffle=False).repeat().shuffle(100).map(decode).batched(args.batch_size)
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=args.workers)
    model = nn.Sequential(nn.Conv2d(3, 16, 5, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    meter = Meter(20, args.batch_size)
    for step, (images, labels) in zip(range(args.steps), loader):
        loss = F.cross_entropy(model(images), torch.as_tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"{step}: {loss.item():.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
