# SPDX-License-Identifier: Apache-2.0
"""Charts sea ice from the two polarisations of a radar satellite: a U-Net that gives each pixel one of six stages of development."""

import argparse

import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    """Random crops, flipped at random, of scenes that are kept in memory as bytes."""

    def __init__(self, patches, patch, scenes=6, size=1024, classes=6, seed=70):
        torch.manual_seed(seed)
        stages = F.interpolate(torch.rand(scenes, 1, size // 32, size // 32), size=(size, size), mode="bicubic").clamp(0, 0.999)
        self.chart = (stages * classes).to(torch.uint8)
        speckle = 40 * torch.randn(scenes, 2, size, size)
        self.radar = (60 + 120 * stages + speckle).clamp(0, 255).to(torch.uint8)
        self.patches, self.patch = patches, patch

    def __len__(self):
        return self.patches

    def __getitem__(self, index):
        scene, top, left, flip = torch.randint(1 << 30, (4,)).tolist()
        scene, top, left = scene % len(self.radar), top % (self.radar.shape[2] - self.patch), left % (self.radar.shape[3] - self.patch)
        rows, columns = slice(top, top + self.patch), slice(left, left + self.patch)
        radar, chart = self.radar[scene, :, rows, columns], self.chart[scene, 0, rows, columns]
        if flip % 2:
            radar, chart = radar.flip(2), chart.flip(1)
        return radar, chart


def double(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, classes, widths):
        super().__init__()
        self.down = nn.ModuleList([double(a, b) for a, b in zip((2, *widths), widths)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:])])
        self.merge = nn.ModuleList([double(2 * a, a) for a in widths[:-1]])
        self.out = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(F.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        x = kept.pop()
        for up, merge in zip(reversed(self.up), reversed(self.merge)):
            x = merge(torch.cat([kept.pop(), up(x)], 1))
        return self.out(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--patch", type=int, default=128)
    parser.add_argument("--widths", type=int, nargs="+", default=[96, 192, 384, 768])
    parser.add_argument("--batch-size", type=int, default=192)
    parser.add_argument("--steps", type=int, default=170)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=4)
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--benchmark", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(70)
    torch.backends.cudnn.benchmark = args.benchmark
    device = torch.device("cuda")
    loader = DataLoader(
        Scenes(args.steps * args.batch_size, args.patch), args.batch_size, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor,
        pin_memory=True, persistent_workers=True, drop_last=True,
    )  # fmt: skip
    net = UNet(6, args.widths).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, args.steps)
    running = torch.zeros((), device=device)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step, (radar, chart) in enumerate(loader, 1):
        radar, chart = radar.to(device, non_blocking=True), chart.to(device, non_blocking=True)
        x = (radar.float() / 127.5 - 1).to(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), chart.long())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        running += loss.detach()
        if step % args.log_every == 0:
            print(f"step {step} loss {running.item() / args.log_every:.4f}")
            running.zero_()
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
