# SPDX-License-Identifier: Apache-2.0
"""Denoising diffusion on small images, with an EMA of the weights. Memory was tight once, so the cache is emptied each step."""

import argparse
import copy

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.inlet, self.outlet = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)) for _ in range(depth)])

    def forward(self, x, t):
        x = self.inlet(x) + self.time(t[:, None])[:, :, None, None]
        for block in self.blocks:
            x = x + block(x)
        return self.outlet(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--ema-every", type=int, default=10)
    parser.add_argument("--keep-cache", action="store_true", help="do not empty the allocator's cache")
    parser.add_argument("--mixed-precision", action="store_true")
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Denoiser(args.width, args.depth).cuda()
    ema = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.rand(512, 3, args.image_size, args.image_size, device="cuda")
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step in range(args.steps):
        clean = images[(step * args.batch_size) % 448 :][: args.batch_size]
        t = torch.rand(args.batch_size, device="cuda")
        noise = torch.randn_like(clean)
        noisy = clean * (1 - t)[:, None, None, None] + noise * t[:, None, None, None]
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.mixed_precision):
            loss = F.mse_loss(model(noisy, t).float(), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.ema_every == 0:
            with torch.no_grad():
                torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 0.001)
        if not args.keep_cache:
            torch.cuda.empty_cache()
        if step % args.log_every == 0:
            print(f"step {step} loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
