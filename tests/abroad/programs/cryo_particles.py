# SPDX-License-Identifier: Apache-2.0
"""Orientation of particles in cryo-EM micrographs. Particles are cut out of micrographs that are kept compressed in memory."""

import argparse
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Particles(Dataset):
    def __init__(self, count, box, stacks=24, in_stack=4):
        random = np.random.default_rng(0)
        self.box, self.count, self.in_stack = box, count, in_stack
        noise = random.normal(0, 12, (stacks, in_stack, box, box)).astype(np.int8)
        self.stacks = [zlib.compress(stack.tobytes(), 4) for stack in noise]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        raw = zlib.decompress(self.stacks[index % len(self.stacks)])
        stack = np.frombuffer(raw, np.int8).reshape(self.in_stack, self.box, self.box)
        particle = stack[index % self.in_stack].astype(np.float32)
        particle = (particle - particle.mean()) / particle.std()
        quaternion = np.array([index % 7, index % 11, index % 13, 1.0], np.float32)
        return torch.from_numpy(particle)[None], torch.from_numpy(quaternion / np.linalg.norm(quaternion))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def network(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 7, 2, 3), nn.ReLU(inplace=True),
        Residual(width, width, 1), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2), Residual(4 * width, 8 * width, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 4),
    )  # fmt: skip


def angle_loss(predicted, wanted):
    return (1 - (F.normalize(predicted, dim=1) * wanted).sum(1).abs()).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--box", type=int, default=128)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=230)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--benchmark", action="store_true", help="let cuDNN choose by trial")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--print-freq", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = args.benchmark

    particles = Particles(args.steps * args.batch_size, args.box)
    loader = DataLoader(
        particles, args.batch_size, shuffle=True, num_workers=args.num_workers, pin_memory=True,
        prefetch_factor=args.prefetch_factor if args.num_workers else None,
    )  # fmt: skip
    net = network(args.width).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, fused=True)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step, (images, quaternions) in enumerate(loader):
        images = images.cuda(non_blocking=True).contiguous(memory_format=torch.channels_last)
        quaternions = quaternions.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.bf16):
            predicted = net(images)
        loss = angle_loss(predicted.float(), quaternions)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.print_freq == 0:
            print(f"step {step} loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
