# SPDX-License-Identifier: Apache-2.0
"""Adaptive optics of a telescope: modes of the turbulence from an image in focus and one out of focus. The loss is the error of
the wavefront in the pupil and of its slopes, which the modes' shapes give; the shapes come from the simulation of the instrument."""

import argparse

import numpy as np
import torch
from meter import Meter
from torch import nn


def mode_shapes(pupil, modes):
    """Fourier modes on the telescope's pupil with the strength that turbulence gives them: (modes, points in the pupil)."""
    y, x = np.mgrid[-1 : 1 : pupil * 1j, -1 : 1 : pupil * 1j]
    radius = np.hypot(x, y)
    inside = (radius < 1) & (radius > 0.28)  # the secondary mirror shades the middle
    orders = sorted(((i, j) for i in range(40) for j in range(40) if i + j), key=lambda order: np.hypot(*order))[:modes]
    x, y = np.pi / 2 * (x[inside] + 1), np.pi / 2 * (y[inside] + 1)
    return np.stack([np.cos(i * x) * np.cos(j * y) * np.hypot(i, j) ** (-11 / 6) for i, j in orders]), inside


def slope_shapes(shapes, inside):
    """Differences between neighbours along x, zero at the pupil's edge."""
    field = np.zeros((len(shapes), *inside.shape))
    field[:, inside] = shapes
    difference = np.diff(field, axis=2, append=0) * (inside & np.roll(inside, -1, 1))
    return difference[:, inside]


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class WavefrontNet(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        blocks = []
        for a, b in zip(widths, widths[1:]):
            blocks += [ResidualBlock(a, b, 1 if a == b else 2), ResidualBlock(b, b, 1)]
        self.body = nn.Sequential(nn.Conv2d(2, width, 5, 2, 2, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), *blocks)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32 * width, 1024), nn.ReLU(inplace=True), nn.Linear(1024, modes)
        )

    def forward(self, images):
        return self.head(self.body(images))


class PupilLoss(nn.Module):
    """Mean square of the wavefront's error over the pupil, plus that of the slopes."""

    def __init__(self, pupil, modes, dtype, slope_weight):
        super().__init__()
        shapes, inside = mode_shapes(pupil, modes)
        self.register_buffer("shapes", torch.from_numpy(shapes).to(dtype))
        self.register_buffer("slopes", torch.from_numpy(slope_shapes(shapes, inside)).to(dtype))
        self.slope_weight = slope_weight

    def forward(self, predicted, target):
        error = (predicted - target).to(self.shapes.dtype)
        return (error @ self.shapes).square().mean() + self.slope_weight * (error @ self.slopes).square().mean()


def get_parser():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=192)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--pupil", type=int, default=96, help="points across the pupil")
    parser.add_argument("--modes", type=int, default=300)
    parser.add_argument("--slope-weight", type=float, default=0.5)
    parser.add_argument("--shapes-dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--steps", type=int, default=260)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--benchmark", action="store_true", help="let cuDNN try its algorithms")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--print-every", type=int, default=40)
    return parser


def main():
    args = get_parser().parse_args()
    torch.manual_seed(8)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
    torch.backends.cudnn.benchmark = args.benchmark

    net = WavefrontNet(args.width, args.modes).cuda()
    if args.channels_last:
        net = net.to(memory_format=torch.channels_last)
    criterion = PupilLoss(args.pupil, args.modes, getattr(torch, args.shapes_dtype), args.slope_weight).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), 5e-4, fused=args.fused or None)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-4, total_steps=args.steps)
    images = torch.rand(8192, 2, args.image_size, args.image_size, device="cuda")
    modes = torch.randn(8192, args.modes, device="cuda")
    meter = Meter(15, args.batch_size, torch.cuda.synchronize)
    for step in range(args.steps):
        first = step * args.batch_size % (8192 - args.batch_size)
        seen, target = images[first : first + args.batch_size], modes[first : first + args.batch_size]
        if args.channels_last:
            seen = seen.to(memory_format=torch.channels_last)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            predicted = net(seen.sqrt())
        loss = criterion(predicted.float(), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % args.print_every == 0:
            print(f"{step:4d}  error {loss.item():.4e}  lr {schedule.get_last_lr()[0]:.2e}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
