# SPDX-License-Identifier: Apache-2.0
"""Vocals out of a mix: the spectrogram is split into bands, narrow ones below and wide ones above, attention goes along time and
along bands in turn, and each band gets its own mask."""

import argparse

import torch
from meter import Meter
from torch import nn

BANDS = [6] * 10 + [12] * 8 + [24] * 6 + [48] * 4 + [96] * 2


class BandSplit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(4 * width) for width in BANDS])
        self.linears = nn.ModuleList([nn.Linear(4 * width, dim) for width in BANDS])

    def forward(self, mix):
        """Batch, time, bins, (real and imaginary part of left and right) to batch, time, bands, dim."""
        parts = mix.split(BANDS, 2)
        return torch.stack([linear(norm(part.flatten(2))) for part, norm, linear in zip(parts, self.norms, self.linears)], 2)


class Masks(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.bands = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, 8 * width), nn.GLU()) for width in BANDS]
        )

    def forward(self, x):
        return torch.cat([mask(part).unflatten(2, (-1, 4)) for part, mask in zip(x.unbind(2), self.bands)], 2)


class WideBandSplit(nn.Module):
    """All bands as wide as the widest, in one product."""

    def __init__(self, dim):
        super().__init__()
        widest, starts = max(BANDS), [sum(BANDS[:number]) for number in range(len(BANDS))]
        bins = torch.tensor([[min(start + offset, sum(BANDS) - 1) for offset in range(widest)] for start in starts])
        inside = torch.arange(widest) < torch.tensor(BANDS)[:, None]
        self.register_buffer("bins", bins.flatten())
        self.register_buffer("inside", inside.float()[None, None, :, :, None])
        self.scale, self.shift = nn.Parameter(torch.ones(len(BANDS), 4 * widest)), nn.Parameter(torch.zeros(len(BANDS), 4 * widest))
        self.weight, self.bias = nn.Parameter(0.05 * torch.randn(len(BANDS), 4 * widest, dim)), nn.Parameter(torch.zeros(len(BANDS), dim))

    def forward(self, mix):
        x = (mix.index_select(2, self.bins).unflatten(2, (len(BANDS), -1)) * self.inside).flatten(3)
        x = nn.functional.layer_norm(x, x.shape[3:]) * self.scale + self.shift
        return torch.einsum("btki,kid->btkd", x, self.weight) + self.bias


class WideMasks(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        widest, number = max(BANDS), len(BANDS)
        self.norm = nn.LayerNorm(dim)
        self.first, self.second = nn.Parameter(0.1 * torch.randn(number, dim, hidden)), nn.Parameter(0.1 * torch.randn(number, hidden, 8 * widest))
        self.shift1, self.shift2 = nn.Parameter(torch.zeros(number, hidden)), nn.Parameter(torch.zeros(number, 8 * widest))
        places = [band * widest + offset for band, width in enumerate(BANDS) for offset in range(width)]
        self.register_buffer("places", torch.tensor(places))

    def forward(self, x):
        x = torch.tanh(torch.einsum("btkd,kdh->btkh", self.norm(x), self.first) + self.shift1)
        x = nn.functional.glu(torch.einsum("btkh,khi->btki", x, self.second) + self.shift2)
        return x.unflatten(3, (-1, 4)).flatten(2, 3).index_select(2, self.places)


class Attention(nn.TransformerEncoderLayer):
    def __init__(self, dim):
        super().__init__(dim, 4, 2 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)


class Separator(nn.Module):
    def __init__(self, dim, depth, hidden, wide):
        super().__init__()
        self.split, self.masks = (WideBandSplit(dim), WideMasks(dim, hidden)) if wide else (BandSplit(dim), Masks(dim, hidden))
        self.along_time, self.along_bands = (nn.ModuleList([Attention(dim) for _ in range(depth)]) for _ in range(2))

    def forward(self, mix):
        x = self.split(mix)
        batch, time, bands, _ = x.shape
        for over_time, over_bands in zip(self.along_time, self.along_bands):
            x = over_time(x.transpose(1, 2).flatten(0, 1)).unflatten(0, (batch, bands)).transpose(1, 2)
            x = over_bands(x.flatten(0, 1)).unflatten(0, (batch, time))
        return mix * self.masks(x)


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--bs", type=int, default=2)
    cli.add_argument("--frames", type=int, default=128)
    cli.add_argument("--dim", type=int, default=64)
    cli.add_argument("--depth", type=int, default=3)
    cli.add_argument("--mask-dim", type=int, default=128)
    cli.add_argument("--wide-bands", action="store_true")
    cli.add_argument("--bf16", action="store_true")
    cli.add_argument("--tf32", action="store_true")
    cli.add_argument("--optim", choices=["adam", "fused"], default="adam")
    cli.add_argument("--iters", type=int, default=200)
    cli.add_argument("--status-every", type=int, default=40)
    cfg = cli.parse_args()
    torch.manual_seed(48)
    torch.backends.cuda.matmul.allow_tf32 = cfg.tf32

    separator = Separator(cfg.dim, cfg.depth, cfg.mask_dim, cfg.wide_bands).cuda()
    optimizer = torch.optim.Adam(separator.parameters(), 5e-4, fused=cfg.optim == "fused" or None)
    vocals, rest = torch.randn(2, 64, cfg.frames, sum(BANDS), 4, device="cuda").unbind()
    meter = Meter(15, cfg.bs, torch.cuda.synchronize)
    for it in range(cfg.iters):
        songs = torch.randint(0, 64, (2, cfg.bs), device="cuda")
        target = vocals[songs[0]]
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=cfg.bf16):
            estimate = separator(target + rest[songs[1]])
        loss = (estimate.float() - target).abs().mean()
        separator.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if it % cfg.status_every == 0:
            print(f"it {it}: L1 {loss.item():.4f}")
        meter.step()
    meter.print()
