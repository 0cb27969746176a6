# SPDX-License-Identifier: Apache-2.0
"""Diffusion on small images with a U-Net. Every few steps it draws images, to see how far it has come."""

import argparse
import math

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class Residual(nn.Module):
    def __init__(self, inputs, outputs, emb):
        super().__init__()
        self.norm1, self.conv1 = (
            nn.GroupNorm(16, inputs),
            nn.Conv2d(inputs, outputs, 3, padding=1),
        )
        self.norm2, self.conv2 = (
            nn.GroupNorm(16, outputs),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.time = nn.Linear(emb, outputs)
        self.skip = (
            nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        )

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(emb)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.emb = nn.Sequential(
            nn.Linear(64, 4 * width),
            nn.SiLU(),
            nn.Linear(4 * width, 4 * width),
            nn.SiLU(),
        )
        self.inlet, self.outlet = (
            nn.Conv2d(3, width, 3, padding=1),
            nn.Conv2d(width, 3, 3, padding=1),
        )
        sizes = [(width, width), (width, 2 * width), (2 * width, 2 * width)]
        self.down = nn.ModuleList([Residual(i, o, 4 * width) for i, o in sizes])
        self.middle = Residual(2 * width, 2 * width, 4 * width)
        self.up = nn.ModuleList(
            [Residual(2 * o, i, 4 * width) for i, o in reversed(sizes)]
        )
        self.register_buffer(
            "frequencies", torch.exp(-math.log(1e4) * torch.arange(32) / 32)
        )

    def forward(self, x, t):
        angles = t[:, None] * self.frequencies
        emb, h, kept = (
            self.emb(torch.cat([angles.sin(), angles.cos()], 1)),
            self.inlet(x),
            [],
        )
        for block in self.down:
            h = block(h, emb)
            kept.append(h)
            h = F.avg_pool2d(h, 2)
        h = self.middle(h, emb)
        for block in self.up:
            h = block(
                torch.cat([F.interpolate(h, scale_factor=2.0), kept.pop()], 1), emb
            )
        return self.outlet(h)


class Diffusion:
    def __init__(self, timesteps):
        beta = torch.linspace(1e-4, 0.02, timesteps, dtype=torch.float64)
        self.timesteps, self.alpha_bar = timesteps, torch.cumprod(1 - beta, 0)
        self.on_device = self.alpha_bar.float().cuda()

    def noisy(self, x, t, noise):
        a = self.on_device[t][:, None, None, None]
        return a.sqrt() * x + (1 - a).sqrt() * noise

    @torch.no_grad()
    def sample(self, model, count, size, steps):
        model.eval()
        x = torch.randn(count, 3, size, size, device="cuda")
        times = torch.linspace(self.timesteps - 1, 0, steps).long().tolist()
        for now, then in zip(times, [*times[1:], None]):
            a, b = (
                float(self.alpha_bar[now]),
                1.0 if then is None else float(self.alpha_bar[then]),
            )
            with torch.autocast("cuda", dtype=torch.bfloat16):
                noise = model(
                    x, torch.full((count,), float(now), device="cuda")
                ).float()
            clean = ((x - math.sqrt(1 - a) * noise) / math.sqrt(a)).clamp_(-1, 1)
            x = math.sqrt(b) * clean + math.sqrt(1 - b) * noise
        model.train()
        return x.add(1).mul(127.5).byte().cpu()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--timesteps", type=int, default=1000)
    parser.add_argument("--train-steps", type=int, default=500)
    parser.add_argument("--sample-every", type=int, default=40)
    parser.add_argument("--sampling-steps", type=int, default=250)
    parser.add_argument("--num-samples", type=int, default=64)
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)

    model, diffusion = UNet(args.width).cuda(), Diffusion(args.timesteps)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    images = (
        torch.rand(2048, 3, args.image_size, args.image_size, device="cuda") * 2 - 1
    )
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step in range(1, args.train_steps + 1):
        at = step * args.batch_size % (2048 - args.batch_size + 1)
        x = images[at : at + args.batch_size]
        t, noise = (
            torch.randint(0, args.timesteps, (len(x),), device="cuda"),
            torch.randn_like(x),
        )
        with torch.autocast("cuda", dtype=torch.bfloat16):
            predicted = model(diffusion.noisy(x, t, noise), t.float())
        loss = F.mse_loss(predicted.float(), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.sample_every == 0:
            drawn = diffusion.sample(
                model, args.num_samples, args.image_size, args.sampling_steps
            )
            print(f"step {step}: {len(drawn)} images drawn")
        if step % args.log_every == 0:
            print(f"step {step}: loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
