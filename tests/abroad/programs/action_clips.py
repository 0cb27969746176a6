# SPDX-License-Identifier: Apache-2.0
"""Actions in short clips: a network of factorised convolutions in space and time. Clips come from a video server, through a loader."""

import argparse
import time

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """A request for the frames of a clip, then a crop and a flip."""

    def __init__(self, count, frames, size, request_ms):
        self.videos = torch.randint(0, 255, (12, 3, frames, size + 16, size + 16), dtype=torch.uint8)
        self.count, self.size, self.request = count, size, request_ms / 1e3

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.request)
        top, left = index * 5 % 16, index * 11 % 16
        clip = self.videos[index % 12, :, :, top : top + self.size, left : left + self.size]
        return clip.flip(3) if index % 2 else clip.contiguous(), index * 31 % 400


def factorised(inputs, outputs, stride=1):
    middle = inputs * outputs * 27 // (9 * inputs + 3 * outputs) // 8 * 8
    return nn.Sequential(
        nn.Conv3d(inputs, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False), nn.BatchNorm3d(middle), nn.ReLU(inplace=True),
        nn.Conv3d(middle, outputs, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False), nn.BatchNorm3d(outputs),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.second = factorised(inputs, outputs, stride), factorised(outputs, outputs)
        self.skip = nn.Conv3d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.skip(x))


def r2plus1d(width, classes):
    return nn.Sequential(
        nn.Conv3d(3, width, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(width), nn.ReLU(inplace=True),
        Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2), Block(4 * width, 8 * width, 2),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8 * width, classes),
    )  # fmt: skip


class AverageMeter:
    def __init__(self):
        self.sum, self.count = torch.zeros((), device="cuda"), 0

    def update(self, value):
        self.sum, self.count = self.sum + value.detach(), self.count + 1

    def average(self):
        return self.sum.item() / max(1, self.count)


def train_epoch(loader, model, optimizer, args, meter):
    losses = AverageMeter()
    for number, (clips, labels) in enumerate(loader):
        clips, labels = clips.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(clips.float().div_(127.5).sub_(1)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.update(loss)
        if number % args.print_freq == 0:
            print(f"[{number}/{len(loader)}] loss {losses.average():.3f}")
        meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--crop-size", type=int, default=112)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--clips", type=int, default=1920)
    parser.add_argument("--request-ms", type=float, default=1.5)
    parser.add_argument("--loader-workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=4)
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--print-freq", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = args.benchmark

    loader = DataLoader(
        Clips(args.clips, args.frames, args.crop_size, args.request_ms), args.batch_size, shuffle=True, num_workers=args.loader_workers,
        prefetch_factor=args.prefetch_factor, pin_memory=True, persistent_workers=True, drop_last=True,
    )  # fmt: skip
    model = r2plus1d(args.width, 400).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4, fused=True)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    train_epoch(loader, model, optimizer, args, meter)
    meter.print()


if __name__ == "__main__":
    main()
