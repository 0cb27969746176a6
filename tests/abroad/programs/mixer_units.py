# SPDX-License-Identifier: Apache-2.0
"""MLP-Mixer. A monitor holds what each block put out last, to say now and then how many units are dead."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class MixerBlock(nn.Module):
    def __init__(self, patches, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(nn.Linear(patches, dim // 2), nn.GELU(), nn.Linear(dim // 2, patches))
        self.channels = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, size, patch, dim, depth, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.Sequential(*[MixerBlock((size // patch) ** 2, dim) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, images):
        return self.head(self.norm(self.blocks(self.stem(images).flatten(2).transpose(1, 2))).mean(1))


class ActivationMonitor:
    def __init__(self, blocks, every):
        self.latest, self.every, self.step = {}, every, 0
        for number, block in enumerate(blocks):
            block.register_forward_hook(lambda _block, _inputs, output, name=f"blocks.{number}": self.keep(name, output))

    def keep(self, name, output):
        if self.step % self.every == 0:
            self.latest[name] = output.detach().cpu()

    def dead(self, examples=4):
        return {name: (values[:examples].abs().amax((0, 1)) < 1e-3).float().mean().item() for name, values in self.latest.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--monitor-every", type=int, default=1)
    parser.add_argument("--report-every", type=int, default=50)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32

    model = Mixer(args.image_size, 16, args.dim, args.depth, 1000).cuda()
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    monitor = ActivationMonitor(model.blocks, args.monitor_every)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    images = torch.rand(4 * args.batch_size, 3, args.image_size, args.image_size, device="cuda")
    labels = torch.randint(0, 1000, (4 * args.batch_size,), device="cuda")
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step in range(args.steps):
        monitor.step = step
        part = slice(step % 4 * args.batch_size, (step % 4 + 1) * args.batch_size)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images[part]), labels[part], label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.report_every == 0:
            print(f"step {step} loss {loss.item():.3f} dead units", monitor.dead())
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
