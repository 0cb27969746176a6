#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small image classifier on a folder of JPEG files, one sub-folder for each class."""

import argparse
import random
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance
from torch import nn
from torch.utils.data import DataLoader, Dataset

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


class ImageFolder(Dataset):
    def __init__(self, root, size):
        self.size = size
        self.classes = sorted(path.name for path in root.iterdir() if path.is_dir())
        self.samples = [
            (path, label) for label, name in enumerate(self.classes) for path in sorted((root / name).glob("*.jpg"))
        ]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        with Image.open(path) as image:
            image = self.augment(image.convert("RGB"))
        pixels = (np.asarray(image, dtype=np.float32) / 255.0 - MEAN) / STD
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), label

    def augment(self, image):
        side = random.uniform(0.6, 1.0) * min(image.size)
        left = random.uniform(0, image.width - side)
        top = random.uniform(0, image.height - side)
        image = image.resize((self.size, self.size), Image.Resampling.BICUBIC, (left, top, left + side, top + side))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            image = enhance(image).enhance(random.uniform(0.7, 1.3))
        return image


def build_model(classes, width):
    layers = []
    channels = 3
    for stage in range(4):
        layers += [
            nn.Conv2d(channels, width << stage, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width << stage),
            nn.ReLU(inplace=True),
        ]
        channels = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def train_epoch(model, loader, optimizer, device, epoch, log_every):
    loss_function = nn.CrossEntropyLoss()
    model.train()
    started = time.perf_counter()
    images = 0
    for step, (inputs, labels) in enumerate(loader):
        inputs = inputs.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(inputs), labels)
        loss.backward()
        optimizer.step()
        images += len(inputs)
        if step % log_every == 0:
            print(f"epoch {epoch} step {step:4d}/{len(loader)} loss {loss.item():.3f}", flush=True)
    seconds = time.perf_counter() - started
    print(f"epoch {epoch}: {images} images in {seconds:.2f} s, {images / seconds:.1f} images/s", flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--image-size", type=int, default=128)
    parser.add_argument("--width", type=int, default=8, help="channels of the first layer")
    parser.add_argument("--workers", type=int, default=0, help="loader processes")
    parser.add_argument("--prefetch", type=int, default=None, help="batches each worker prepares ahead")
    parser.add_argument("--pin-memory", action="store_true")
    parser.add_argument("--persistent-workers", action="store_true")
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--checkpoint", type=Path, default=None)
    return parser.parse_args()


def main():
    args = parse_arguments()
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = ImageFolder(args.data, args.image_size)
    loader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        prefetch_factor=args.prefetch,
        pin_memory=args.pin_memory,
        persistent_workers=args.persistent_workers,
        drop_last=True,
    )
    model = build_model(len(dataset.classes), args.width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    print(f"{len(dataset)} images, {len(dataset.classes)} classes, training on {device}", flush=True)
    for epoch in range(args.epochs):
        train_epoch(model, loader, optimizer, device, epoch, args.log_every)
        if args.checkpoint:
            torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, args.checkpoint)


if __name__ == "__main__":
    main()
