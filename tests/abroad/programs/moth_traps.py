# SPDX-License-Identifier: Apache-2.0
"""Moths at light traps, told apart by patches of the raw frames that the camera above the screen takes at night."""

import argparse

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

BLACK, WHITE = 64, 1023
GAINS = np.array([1.9, 1.0, 1.6], np.float32)
TO_SRGB = np.array([[1.6, -0.4, -0.2], [-0.3, 1.5, -0.2], [0.0, -0.6, 1.6]], np.float32)


def make_nights(frames, height, width, species, seed=19):
    """Ten-bit mosaics (red, green over green, blue), each with moths of one kind: a tint and the size of the spots."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, species, frames)
    rows, columns = np.mgrid[:height, :width]
    mosaics = np.empty((frames, height, width), np.uint16)
    for mosaic, kind in zip(mosaics, kinds):
        period = 12 + 3 * (kind % 7)
        tint = 0.4 + 0.5 * ((kind * 5 + rows % 2 * 2 + columns % 2) % 4) / 4
        light = 0.6 + 0.3 * np.sin(rows / period) * np.cos(columns / period)
        mosaic[:] = BLACK + (WHITE - BLACK) * np.clip(tint * light + 0.05 * rng.standard_normal((height, width)), 0, 1)
    return mosaics, kinds


def bilinear(plane, where):
    """Fills the gaps of one colour with the mean of those neighbours that have it."""
    weights = ((1, 2, 1), (2, 4, 2), (1, 2, 1))
    values, known = np.pad(plane * where, 1), np.pad(where, 1)
    height, width = plane.shape
    total, count = np.zeros_like(plane), np.zeros_like(plane)
    for down in range(3):
        for right in range(3):
            total += weights[down][right] * values[down : down + height, right : right + width]
            count += weights[down][right] * known[down : down + height, right : right + width]
    return np.where(where > 0, plane, total / np.maximum(count, 1e-6))


def develop(mosaic):
    """Raw to sRGB: black level, white balance, demosaicing, colour matrix, gamma."""
    linear = (mosaic.astype(np.float32) - BLACK) / (WHITE - BLACK)
    sites = np.zeros((3, *mosaic.shape), np.float32)
    sites[0, ::2, ::2] = sites[1, ::2, 1::2] = sites[1, 1::2, ::2] = sites[2, 1::2, 1::2] = 1
    rgb = np.stack([bilinear(linear * gain, where) for gain, where in zip(GAINS, sites)], -1)
    rgb = np.clip(np.einsum("hwc,dc->hwd", rgb, TO_SRGB), 0, 1)
    return (255 * rgb ** (1 / 2.2)).astype(np.uint8)


class Patches(Dataset):
    def __init__(self, mosaics, kinds, count, size, crop, keep_developed):
        self.mosaics, self.kinds, self.count, self.size, self.crop_first = mosaics, kinds, count, size, crop == "raw"
        self.developed = [develop(mosaic) for mosaic in mosaics] if keep_developed else None

    def __len__(self):
        return self.count

    def cut(self, frame, rng, border=0):
        """At an even place, so that a mosaic still begins with red."""
        size = self.size + 2 * border
        top, left = (2 * int(rng.integers(0, (length - size) // 2 + 1)) for length in frame.shape[:2])
        return frame[top : top + size, left : left + size]

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        number = int(rng.integers(0, len(self.mosaics)))
        if self.developed is not None:
            patch = self.cut(self.developed[number], rng)
        elif self.crop_first:
            patch = develop(self.cut(self.mosaics[number], rng, border=2))[2:-2, 2:-2]
        else:
            patch = self.cut(develop(self.mosaics[number]), rng)
        if rng.random() < 0.5:
            patch = patch[:, ::-1]
        return np.ascontiguousarray(np.rot90(patch, int(rng.integers(0, 4)))), int(self.kinds[number])


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        first, second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.deep = nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(), second, nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu(x + self.deep(x))


class MothNet(nn.Module):
    def __init__(self, width, depth, species):
        super().__init__()
        layers, inputs = [], 3
        for stage in range(4):
            layers += [nn.Conv2d(inputs, width << stage, 4 if stage == 0 else 2, 4 if stage == 0 else 2), *(Block(width << stage) for _ in range(depth))]
            inputs = width << stage
        self.body, self.head = nn.Sequential(*layers), nn.Linear(inputs, species)

    def forward(self, images):
        """Bytes, channels last."""
        return self.head(self.body(images.permute(0, 3, 1, 2).float().div(127.5).sub(1)).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--frame-size", type=int, nargs=2, default=(360, 480), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--species", type=int, default=40)
    parser.add_argument("--patch", type=int, default=160)
    parser.add_argument("--crop", choices=["developed", "raw"], default="developed", help="what patches are cut from")
    parser.add_argument("--keep-developed", action="store_true", help="develop all frames at the start")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--fp32", action="store_true")
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--log-every", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(19)
    torch.backends.cudnn.benchmark = args.benchmark

    mosaics, kinds = make_nights(args.frames, *args.frame_size, args.species)
    patches = Patches(mosaics, kinds, args.steps * args.batch_size, args.patch, args.crop, args.keep_developed)
    loader = DataLoader(patches, args.batch_size, shuffle=True, drop_last=True, num_workers=args.workers, pin_memory=True,
                        prefetch_factor=args.prefetch_factor if args.workers else None)  # fmt: skip
    net = MothNet(args.width, args.depth, args.species).cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, nesterov=True, weight_decay=5e-4, fused=args.fused or None)
    meter = Meter(10, args.batch_size, torch.cuda.synchronize)
    for step, (images, wanted) in enumerate(loader, 1):
        images, wanted = images.cuda(non_blocking=True), wanted.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=not args.fp32):
            loss = nn.functional.cross_entropy(net(images), wanted, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"[{step:3d}/{args.steps}] loss {loss.item():.3f}", flush=True)
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
