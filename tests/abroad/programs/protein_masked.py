# SPDX-License-Identifier: Apache-2.0
"""Masked residues of proteins: an encoder with rotary positions and gated feed-forward layers, in bfloat16."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

RESIDUES, MASK, PAD = 20, 20, 21


class Crops(Dataset):
    """Crops of one length from a long string of residues; 15% are hidden."""

    def __init__(self, count, length):
        self.residues, self.count, self.length = torch.randint(0, RESIDUES, (1_000_000,)), count, length

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        at = index * 7919 % (len(self.residues) - self.length)
        wanted = self.residues[at : at + self.length]
        hidden = torch.rand(self.length) < 0.15
        return wanted.masked_fill(hidden, MASK), wanted.masked_fill(~hidden, -100)


def rotate(x, angles):
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).to(x.dtype)


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.gated, self.down = nn.Linear(dim, 16 * dim // 3, bias=False), nn.Linear(8 * dim // 3, dim, bias=False)

    def forward(self, x, angles):
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q, angles), rotate(k, angles), v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, dim))
        gate, up = self.gated(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Encoder(nn.Module):
    def __init__(self, dim, heads, layers, length):
        super().__init__()
        self.residues = nn.Embedding(24, dim)
        self.layers = nn.ModuleList([EncoderLayer(dim, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 24)
        frequencies = 10000.0 ** (-torch.arange(dim // heads // 2) / (dim // heads // 2))
        self.register_buffer("angles", torch.outer(torch.arange(length), frequencies), persistent=False)

    def forward(self, tokens):
        x = self.residues(tokens)
        for layer in self.layers:
            x = layer(x, self.angles)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--crop", type=int, default=512)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--num-steps", type=int, default=76)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--prefetch", type=int, default=4)
    parser.add_argument("--tf32", action="store_true", help="for what is left in single precision")
    parser.add_argument("--log-every", type=int, default=25)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32

    crops = Crops(args.num_steps * args.batch_size, args.crop)
    loader = DataLoader(
        crops, args.batch_size, shuffle=True, num_workers=args.workers, prefetch_factor=args.prefetch, pin_memory=True, drop_last=True
    )
    model = Encoder(args.dim, args.heads, args.layers, args.crop).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    meter = Meter(15, args.batch_size, torch.cuda.synchronize)
    for step, (tokens, wanted) in enumerate(loader):
        tokens, wanted = tokens.cuda(non_blocking=True), wanted.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens)
        loss = F.cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), ignore_index=-100)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"step {step} perplexity {loss.exp().item():.2f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
