# SPDX-License-Identifier: Apache-2.0
"""Rain of the next half hour from the radar of the last one: a transformer over small boxes of space and time that fills in the boxes to come."""

import argparse

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RadarDays(Dataset):
    """Sequences of bytes (half decibels), cut out of composites that drift over the map. All are in memory."""

    def __init__(self, sequences, length, frames, side, seed):
        rng = np.random.default_rng(seed)
        coarse = rng.gamma(0.3, 40, (sequences, 1, side // 8 + 4, side // 8 + 4)).clip(0, 255).astype(np.uint8)
        wide = coarse.repeat(8, 2).repeat(8, 3)
        self.composites = np.concatenate([np.roll(wide, (2 * frame, 3 * frame), (2, 3)) for frame in range(frames)], 1)
        self.length, self.side, self.spare = length, side, wide.shape[-1] - side

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        top, left = rng.integers(0, self.spare + 1, 2)
        cut = self.composites[rng.integers(len(self.composites)), :, top : top + self.side, left : left + self.side]
        return torch.from_numpy(np.ascontiguousarray(cut[:, :, ::-1] if rng.random() < 0.5 else cut))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Nowcaster(nn.Module):
    """Frames come in pairs; the second half of the pairs is replaced by a learned token before the first layer."""

    def __init__(self, frames, side, box, dim, depth, heads):
        super().__init__()
        self.box, self.grid = box, side // box
        self.embed = nn.Linear(2 * box * box, dim)
        self.unknown = nn.Parameter(torch.zeros(dim))
        self.place = nn.Parameter(0.02 * torch.randn(1, frames // 2 * self.grid**2, dim))
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])
        self.norm, self.rain = nn.LayerNorm(dim), nn.Linear(dim, 2 * box * box)

    def boxes(self, radar):
        batch, frames = radar.shape[:2]
        x = radar.view(batch, frames // 2, 2, self.grid, self.box, self.grid, self.box)
        return x.permute(0, 1, 3, 5, 2, 4, 6).reshape(batch, frames // 2 * self.grid**2, -1)

    def forward(self, radar):
        boxes = self.boxes(radar)
        past = boxes.shape[1] // 2
        x = self.embed(boxes[:, :past])
        x = torch.cat([x, self.unknown.to(x.dtype).expand_as(x)], 1) + self.place
        for layer in self.layers:
            x = layer(x)
        return nn.functional.l1_loss(self.rain(self.norm(x[:, past:])).float(), boxes[:, past:].float())


def prepared(loader, device):
    for radar in loader:
        yield radar.to(device, non_blocking=True).float().div_(128).log1p_()


@torch.no_grad()
def validate(model, loader, device, dtype):
    model.eval()
    total = torch.zeros((), device=device)
    for radar in prepared(loader, device):
        with torch.autocast("cuda", dtype):
            total += model(radar)
    model.train()
    return total.item() / len(loader)


def main(args):
    torch.manual_seed(7)
    torch.backends.cuda.matmul.allow_tf32 = True
    device, dtype = torch.device("cuda"), getattr(torch, args.dtype)
    days = RadarDays(24, args.steps * args.batch_size, args.frames, args.side, 7)
    held_back = RadarDays(4, 32, args.frames, args.side, 8)
    ahead = args.prefetch_factor if args.workers else None
    loader = DataLoader(days, args.batch_size, num_workers=args.workers, pin_memory=True, drop_last=True, prefetch_factor=ahead)
    held_back = DataLoader(held_back, args.batch_size, pin_memory=True)
    model = Nowcaster(args.frames, args.side, args.box, args.dim, args.depth, args.dim // 64).to(device)
    decayed = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], args.lr, betas=(0.9, 0.95), weight_decay=0.05, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.steps + 1, pct_start=0.1)
    meter = Meter(15, args.batch_size, torch.cuda.synchronize)
    for step, radar in enumerate(prepared(loader, device), 1):
        with torch.autocast("cuda", dtype):
            loss = model(radar)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        if step % args.log_every == 0:
            print(f"step {step} loss {loss.item():.4f} gradient {norm.item():.3f}")
        if step % args.validate_every == 0:
            print(f"step {step} held back {validate(model, held_back, device, dtype):.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--box", type=int, default=4)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--dtype", choices=["bfloat16", "float16"], default="bfloat16")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--lr", type=float, default=4e-4)
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--validate-every", type=int, default=40)
    main(parser.parse_args())
