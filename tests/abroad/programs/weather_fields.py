# SPDX-License-Identifier: Apache-2.0
"""Weather six hours ahead on a coarse grid: an adaptive Fourier network on fields of a reanalysis, which lie in the host's memory."""

import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


@dataclass
class Config:
    variables: int = 69
    height: int = 120
    width: int = 240
    patch: int = 8
    dim: int = 512
    blocks: int = 8
    depth: int = 8


class FourierMixer(nn.Module):
    """Block-diagonal products in the frequencies of the token grid."""

    def __init__(self, config):
        super().__init__()
        size = config.dim // config.blocks
        self.blocks = config.blocks
        self.first = nn.Parameter(0.02 * torch.randn(2, config.blocks, size, size))
        self.second = nn.Parameter(0.02 * torch.randn(2, config.blocks, size, size))

    def product(self, real, imaginary, weight):
        return (
            torch.einsum("bhwkd,kde->bhwke", real, weight[0]) - torch.einsum("bhwkd,kde->bhwke", imaginary, weight[1]),
            torch.einsum("bhwkd,kde->bhwke", imaginary, weight[0]) + torch.einsum("bhwkd,kde->bhwke", real, weight[1]),
        )

    def forward(self, x):
        batch, height, width, dim = x.shape
        spectrum = torch.fft.rfft2(x.float(), dim=(1, 2), norm="ortho").view(batch, height, width // 2 + 1, self.blocks, -1)
        real, imaginary = self.product(spectrum.real, spectrum.imag, self.first)
        real, imaginary = self.product(F.relu(real), F.relu(imaginary), self.second)
        spectrum = torch.complex(real.float(), imaginary.float()).reshape(batch, height, width // 2 + 1, dim)
        return torch.fft.irfft2(spectrum, s=(height, width), dim=(1, 2), norm="ortho")


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.norm2, self.mixer = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim), FourierMixer(config)
        self.mlp = nn.Sequential(nn.Linear(config.dim, 4 * config.dim), nn.GELU(), nn.Linear(4 * config.dim, config.dim))

    def forward(self, x):
        x = x + self.mixer(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class FourCast(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Conv2d(config.variables, config.dim, config.patch, config.patch)
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.depth)])
        self.out = nn.ConvTranspose2d(config.dim, config.variables, config.patch, config.patch)

    def forward(self, fields):
        tokens = self.embed(fields).permute(0, 2, 3, 1)
        return fields + self.out(self.blocks(tokens).permute(0, 3, 1, 2).contiguous())


class Reanalysis:
    """Consecutive fields, normalised. Pairs are (now, in six hours)."""

    def __init__(self, config, hours, pin):
        self.fields = torch.zeros(hours, config.variables, config.height, config.width)
        self.fields.normal_() if hours <= 4 else self.fields[:4].normal_()
        if pin:
            self.fields = self.fields.pin_memory()

    def batches(self, size, count):
        for number in range(count):
            at = number * size % (len(self.fields) - size)
            yield self.fields[at : at + size], self.fields[at + 1 : at + 1 + size]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--iterations", type=int, default=160)
    parser.add_argument("--hours", type=int, default=40)
    parser.add_argument("--pin-memory", action="store_true")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--optimizer", choices=["adamw", "fused"], default="fused")
    parser.add_argument("--display", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)

    config = Config()
    archive = Reanalysis(config, args.hours, args.pin_memory)
    latitude = torch.cos(torch.linspace(-1.5, 1.5, config.height, device="cuda"))[:, None]
    model = FourCast(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4, fused=args.optimizer == "fused" or None)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.iterations)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for iteration, (now, later) in enumerate(archive.batches(args.batch_size, args.iterations)):
        now, later = now.to("cuda", non_blocking=True), later.to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            forecast = model(now)
        loss = ((forecast.float() - later).square() * latitude).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if iteration % args.display == 0:
            print(f"iteration {iteration}: weighted MSE {loss.item():.4f}, learning rate {schedule.get_last_lr()[0]:.2e}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
