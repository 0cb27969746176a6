# SPDX-License-Identifier: Apache-2.0
"""fastai on a folder of photos, as in the first lesson: a DataBlock, item transforms, a small model."""

import argparse
from pathlib import Path

import no_vision_kernels  # noqa: F401
import torch
from fastai.vision.all import Callback, CategoryBlock, DataBlock, ImageBlock, Learner, RandomSplitter, Resize, get_image_files, parent_label
from meter import Meter
from torch import nn


class Clock(Callback):
    def __init__(self, meter):
        self.meter = meter

    def after_batch(self):
        if self.training:
            self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--bs", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--size", type=int, default=96)
    args = parser.parse_args()
    torch.manual_seed(0)
    block = DataBlock(blocks=(ImageBlock, CategoryBlock), get_items=get_image_files, splitter=RandomSplitter(0.05, seed=0), get_y=parent_label, item_tfms=Resize(args.size))
    data = block.dataloaders(args.path, bs=args.bs, num_workers=args.num_workers, device=torch.device("cpu"))
    model = nn.Sequential(nn.Conv2d(3, 16, 5, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    meter = Meter(len(data.train), args.bs)
    learner = Learner(data, model, loss_func=nn.CrossEntropyLoss(), cbs=[Clock(meter)])
    with learner.no_bar():
        learner.fit(args.epochs, 1e-3)
    meter.print()


if __name__ == "__main__":
    main()
