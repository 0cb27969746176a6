# SPDX-License-Identifier: Apache-2.0
"""ResNet-like classifier on images that are already decoded: one tensor file a batch would be too easy, so items are collated."""

import argparse
import time

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class DecodedImages(Dataset):
    """Decoded images in shared memory; `read_ms` is what the store needs for a request of one image."""

    def __init__(self, count, size, read_ms):
        self.pool = torch.randint(0, 255, (64, 3, size, size), dtype=torch.uint8)
        self.count, self.read_ms = count, read_ms

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.read_ms:
            time.sleep(self.read_ms / 1e3)
        return self.pool[index % 64].float().div_(255), index % 10


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


def resnet(width, depth):
    layers, channels = [nn.Conv2d(3, width, 7, stride=2, padding=3), nn.ReLU()], width
    for stage in range(3):
        layers += [Residual(channels) for _ in range(depth)]
        if stage < 2:
            layers += [nn.Conv2d(channels, channels * 2, 3, stride=2, padding=1), nn.ReLU()]
            channels *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--batch-size", type=int, default=64)
    parser.add_argument("-j", "--workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--pin-memory", action="store_true")
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--read-ms", type=float, default=0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--print-freq", type=int, default=25)
    args = parser.parse_args()
    torch.manual_seed(0)
    dataset = DecodedImages(args.steps * args.batch_size, args.size, args.read_ms)
    extra = {"prefetch_factor": args.prefetch_factor} if args.workers else {}
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=args.pin_memory, drop_last=True, **extra)
    model = resnet(args.width, args.depth).cuda()
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for i, (images, target) in enumerate(loader):
        images, target = images.cuda(non_blocking=args.pin_memory), target.cuda(non_blocking=args.pin_memory)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.amp):
            loss = F.cross_entropy(model(images), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if i % args.print_freq == 0:
            print(f"Epoch: [0][{i}/{len(loader)}]  Loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
