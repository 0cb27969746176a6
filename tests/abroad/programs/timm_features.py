# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning a timm model on photos, with the transforms that timm suggests for it."""

import argparse
from pathlib import Path

import no_vision_kernels  # noqa: F401
import timm
import torch
import torch.nn.functional as F
from meter import Meter
from PIL import Image
from timm.data import create_transform
from timm.optim import create_optimizer_v2
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, root, transform):
        self.files, self.transform = sorted(Path(root).glob("*/*.jpg")), transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.transform(Image.open(self.files[index]).convert("RGB")), index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--photos", required=True)
    parser.add_argument("--model", default="test_resnet")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=110)
    args = parser.parse_args()
    torch.manual_seed(0)
    transform = create_transform(args.size, is_training=True, auto_augment="rand-m9-mstd0.5")
    loader = DataLoader(Photos(args.photos, transform), args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True, persistent_workers=args.workers > 0)
    model = timm.create_model(args.model, num_classes=10)
    optimizer = create_optimizer_v2(model, "sgd", lr=0.01)
    meter, step = Meter(len(loader), args.batch_size), 0
    while step < args.steps:
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 25 == 0:
                print(step, loss.item())
            meter.step()
            step += 1
    meter.print()


if __name__ == "__main__":
    main()
