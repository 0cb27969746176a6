# SPDX-License-Identifier: Apache-2.0
"""Segmentation of brain scans with four modalities: large patches from page-locked memory, and a 3D U-Net that halves them at once."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


def block(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm3d(outputs), nn.LeakyReLU(0.01, inplace=True),
        nn.Conv3d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm3d(outputs), nn.LeakyReLU(0.01, inplace=True),
    )  # fmt: skip


class UNet3D(nn.Module):
    def __init__(self, modalities, classes, width):
        super().__init__()
        self.down1, self.down2, self.down3 = (
            block(modalities, width, 2),
            block(width, 2 * width, 2),
            block(2 * width, 4 * width, 2),
        )
        self.up2, self.up1 = (
            nn.ConvTranspose3d(4 * width, 2 * width, 2, 2),
            nn.ConvTranspose3d(2 * width, width, 2, 2),
        )
        self.conv2, self.conv1 = block(4 * width, 2 * width), block(2 * width, width)
        self.out = nn.ConvTranspose3d(width, classes, 2, 2)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(a)
        c = self.down3(b)
        b = self.conv2(torch.cat([b, self.up2(c)], 1))
        return self.out(self.conv1(torch.cat([a, self.up1(b)], 1)))


class Patches:
    """The training set fits in memory, cropped once: a batch is a slice of a page-locked tensor."""

    def __init__(self, count, side, batch, steps, dtype):
        self.images = torch.rand(count, 4, side, side, side).to(dtype).pin_memory()
        self.labels = torch.randint(
            0, 4, (count, side, side, side), dtype=torch.uint8
        ).pin_memory()
        self.batch, self.steps = batch, steps

    def __iter__(self):
        for step in range(self.steps):
            at = step * self.batch % (len(self.images) - self.batch + 1)
            yield self.images[at : at + self.batch], self.labels[at : at + self.batch]


def straight(patches):
    for images, labels in patches:
        yield images.cuda(non_blocking=True), labels.cuda(non_blocking=True)


def prefetched(patches):
    """Copies the next batch on a stream of its own while this one is trained on."""
    stream, ready = torch.cuda.Stream(), None
    for images, labels in patches:
        with torch.cuda.stream(stream):
            following = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        if ready:
            yield ready
        torch.cuda.current_stream().wait_stream(stream)
        for part in following:
            part.record_stream(torch.cuda.current_stream())
        ready = following
    yield ready


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--patch", type=int, default=96)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--prefetch", action="store_true")
    parser.add_argument(
        "--half-volumes",
        action="store_true",
        help="keep them as float16 in host memory",
    )
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)

    net = UNet3D(4, 4, args.width).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    patches = Patches(
        16,
        args.patch,
        args.batch_size,
        args.steps,
        torch.float16 if args.half_volumes else torch.float32,
    )
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step, (images, labels) in enumerate(
        (prefetched if args.prefetch else straight)(patches)
    ):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(net(images), labels.long())
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % args.log_every == 0:
            print(f"iteration {step}: loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
