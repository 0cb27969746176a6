# SPDX-License-Identifier: Apache-2.0
"""Trains a convolutional network on augmented images, as the articles on slow training have it. Augmentation computes, or
sleeps: then it stands for work on a core of its own, whatever the cores of the machine that runs this.

Its last line is {"step_ms": mean by its own clock between two synchronised steps, "run_delay_share": of that time, waiting for a CPU}.
"""

import argparse
import hashlib
import time

import torch
from step_clock import Clock
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

CLASSES = 100
BLOCK = bytes(100_000)


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=151)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--precision", choices=["highest", "high"], default="highest")
    parser.add_argument("--augment-ms", type=float, default=3, help="for an image")
    parser.add_argument("--augment-by", choices=["sleeping", "computing"], default="sleeping")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--kernel", type=int, default=13, help="its edge: large ones keep the device busy with few launches")
    parser.add_argument("--depth", type=int, default=20)
    return parser.parse_args()


def compute(seconds):
    """For so long on a CPU, and without Python's lock, as decoders do."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(BLOCK)


class Images(Dataset):
    def __init__(self, args):
        self.args = args
        self.augment = time.sleep if args.augment_by == "sleeping" else compute
        self.image = torch.zeros(3, args.size, args.size)

    def __len__(self):
        return self.args.steps * self.args.batch

    def __getitems__(self, indices):
        """A batch at a time: one sleep's inaccuracy and not one for each image."""
        self.augment(len(indices) * self.args.augment_ms / 1e3)
        return [(self.image, index % CLASSES) for index in indices]


def make_model(args):
    layers = [nn.Conv2d(3, args.width, 8, stride=8), nn.ReLU()]
    for _ in range(args.depth):
        layers += [nn.Conv2d(args.width, args.width, args.kernel, padding="same", bias=False), nn.BatchNorm2d(args.width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(args.width, CLASSES))


def main():
    args = options()
    torch.backends.cudnn.allow_tf32 = args.precision == "high"
    torch.set_float32_matmul_precision(args.precision)
    loader = DataLoader(Images(args), batch_size=args.batch, num_workers=args.workers, pin_memory=True, drop_last=True)
    model = make_model(args).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    clock = Clock()
    for step, (images, labels) in enumerate(loader):
        loss = functional.cross_entropy(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 and step > 0:
            print(step, loss.item())
            clock.mark(step)
    clock.print()


if __name__ == "__main__":
    main()
