# SPDX-License-Identifier: Apache-2.0
"""One-stage detector: dense anchors are made once with NumPy and go with each batch."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Boxes(Dataset):
    def __init__(self, count, size):
        self.image, self.count = torch.rand(3, size, size), count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = np.random.default_rng(index)
        return self.image, torch.from_numpy(generator.random((8, 4), dtype=np.float32))


def all_anchors(cells, shapes):
    grid = np.stack(np.meshgrid(np.arange(cells), np.arange(cells)), -1).reshape(-1, 2) / cells
    sizes = np.random.default_rng(0).random((shapes, 2)) + 0.1
    return torch.from_numpy(np.concatenate([np.repeat(grid, shapes, 0), np.tile(sizes, (cells * cells, 1))], 1).astype(np.float32))


def nearest(anchors, boxes):
    """Distance of each anchor to the nearest box of each image."""
    return torch.cdist(boxes, anchors[None].expand(len(boxes), -1, -1)).amin(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--cells", type=int, default=320)
    parser.add_argument("--shapes", type=int, default=9)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--anchors-on-device", action="store_true", help="move them once, before training")
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    anchors = all_anchors(args.cells, args.shapes)
    if args.anchors_on_device:
        anchors = anchors.cuda()
    loader = DataLoader(Boxes(args.steps * args.batch_size, args.size), args.batch_size, num_workers=args.workers, pin_memory=True)
    backbone = nn.Sequential(
        nn.Conv2d(3, 64, 7, 4, 3), nn.ReLU(), nn.Conv2d(64, 256, 3, 2, 1), nn.ReLU(), nn.Conv2d(256, 512, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 4),
    ).cuda()  # fmt: skip
    optimizer = torch.optim.SGD(backbone.parameters(), lr=0.01, momentum=0.9, foreach=True)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step, (images, boxes) in enumerate(loader):
        images, boxes = images.cuda(non_blocking=True), boxes.cuda(non_blocking=True)
        here = anchors.to(images.device)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.amp):
            predicted = backbone(images).float()
        weight = nearest(here, boxes).mean(1, keepdim=True)
        loss = (F.smooth_l1_loss(predicted, boxes[:, 0], reduction="none") * (1 + weight)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"iter {step} loss {loss.item():.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
