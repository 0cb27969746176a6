# SPDX-License-Identifier: Apache-2.0
"""Tells how people walk from the micro-Doppler spectrograms of a 24 GHz radar, with time shifts, masks, noise and mixed pairs for augmentation."""

import argparse

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F


def make_spectrograms(count, bins, frames, gaits, seed=24):
    """uint8 decibels: the torso's line, the swing of the limbs around it, and speckle. Longer than a window."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, gaits, count)
    t = np.linspace(0, 1, frames, dtype=np.float32)
    place = np.arange(bins, dtype=np.float32)[:, None]
    out = np.empty((count, bins, frames), np.uint8)
    for i, gait in enumerate(labels):
        torso = bins / 2 + 0.06 * bins * np.sin(2 * np.pi * (2 + gait * 0.5) * t + rng.uniform(0, 6))
        limbs = torso + (0.1 + 0.03 * gait) * bins * np.sin(2 * np.pi * (4 + gait) * t)
        power = 160 * np.exp(-((place - torso) ** 2) / 8) + 90 * np.exp(-((place - limbs) ** 2) / 30)
        out[i] = np.clip(power + rng.integers(0, 60, (bins, frames)), 0, 255)
    return out, labels


class NumpyAugment:
    """Works on the whole batch: shift in time, masks in time and frequency, receiver noise, mixing of pairs."""

    def __init__(self, window, noise, alpha, seed=5):
        self.window, self.noise, self.alpha, self.rng = window, noise, alpha, np.random.default_rng(seed)

    def __call__(self, batch, target):
        count, bins, frames = batch.shape
        starts = self.rng.integers(0, frames - self.window + 1, count)
        x = np.stack([row[:, start : start + self.window] for row, start in zip(batch, starts)]).astype(np.float32) / 127.5 - 1
        for row in x:
            low, first = self.rng.integers(0, bins - 12), self.rng.integers(0, self.window - 16)
            row[low : low + 12] = -1
            row[:, first : first + 16] = -1
        x += self.noise * self.rng.standard_normal(x.shape, dtype=np.float32)
        weight = self.rng.beta(self.alpha, self.alpha, (count, 1, 1)).astype(np.float32)
        order = self.rng.permutation(count)
        mixed = weight * x + (1 - weight) * x[order]
        target = weight[:, 0] * target + (1 - weight[:, 0]) * target[order]
        return torch.from_numpy(mixed).to("cuda"), torch.from_numpy(target).to("cuda")


class DeviceAugment(NumpyAugment):
    """The same on the device."""

    def __call__(self, batch, target):
        x, target = torch.from_numpy(batch).to("cuda"), torch.from_numpy(target).to("cuda")
        count, bins, frames = x.shape
        column = torch.arange(self.window, device="cuda")
        starts = torch.randint(frames - self.window + 1, (count, 1), device="cuda")
        x = x.gather(2, (starts + column)[:, None].expand(count, bins, self.window)).float() / 127.5 - 1
        row = torch.arange(bins, device="cuda")
        low, first = torch.randint(bins - 12, (count, 1), device="cuda"), torch.randint(self.window - 16, (count, 1), device="cuda")
        hidden = ((row >= low) & (row < low + 12))[:, :, None] | ((column >= first) & (column < first + 16))[:, None]
        x = x.masked_fill(hidden, -1.0) + self.noise * torch.randn_like(x)
        weight = torch.from_numpy(self.rng.beta(self.alpha, self.alpha, (count, 1, 1)).astype(np.float32)).to("cuda")
        order = torch.randperm(count, device="cuda")
        return weight * x + (1 - weight) * x[order], weight[:, 0] * target + (1 - weight[:, 0]) * target[order]


def stage(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--recordings", type=int, default=1500)
    ap.add_argument("--bins", type=int, default=96)
    ap.add_argument("--frames", type=int, default=192)
    ap.add_argument("--window", type=int, default=128)
    ap.add_argument("--gaits", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--width", type=int, default=8)
    ap.add_argument("--steps", type=int, default=300)
    ap.add_argument("--augment-on", choices=["cpu", "gpu"], default="cpu")
    ap.add_argument("--noise", type=float, default=0.05)
    ap.add_argument("--alpha", type=float, default=0.4)
    ap.add_argument("--loss-scale", type=float, default=1024.0, help="Adam does not notice it")
    ap.add_argument("--fused", action="store_true")
    ap.add_argument("--benchmark", action="store_true")
    ap.add_argument("--log-every", type=int, default=30)
    args = ap.parse_args()

    torch.manual_seed(24)
    torch.backends.cudnn.benchmark = args.benchmark
    rng = np.random.default_rng(24)
    spectrograms, labels = make_spectrograms(args.recordings, args.bins, args.frames, args.gaits)
    targets = np.eye(args.gaits, dtype=np.float32)[labels]
    augment = (NumpyAugment if args.augment_on == "cpu" else DeviceAugment)(args.window, args.noise, args.alpha)
    w = args.width
    net = nn.Sequential(stage(1, w), stage(w, 2 * w), stage(2 * w, 4 * w), stage(4 * w, 8 * w), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * w, args.gaits)).to("cuda")
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=args.fused or None)
    meter = Meter(15, args.batch_size, torch.cuda.synchronize)
    for step in range(1, args.steps + 1):
        chosen = rng.integers(0, args.recordings, args.batch_size)
        x, target = augment(spectrograms[chosen], targets[chosen])
        with torch.autocast("cuda", torch.float16):
            logits = net(x[:, None])
        loss = F.cross_entropy(logits.float(), target)
        optimizer.zero_grad()
        (loss * args.loss_scale).backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"step {step} loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
