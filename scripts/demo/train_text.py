#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer to continue text, byte by byte, on files that fit into memory."""

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.before_attention(x)).unflatten(-1, (3, self.heads, -1)).transpose(1, 3).unbind(2)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class Model(nn.Module):
    def __init__(self, width, layers, context):
        super().__init__()
        self.token, self.position = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, width // 64) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.blocks(self.token(tokens) + self.position(positions)))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="folder of text files")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--matmul-precision", choices=["highest", "high"], default="highest", help="high allows TF32")
    parser.add_argument("--log-every", type=int, default=10)
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision(args.matmul_precision)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    text = b"".join(path.read_bytes() for path in sorted(args.text.glob("**/*.py")))
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)  # all of it, once
    model = Model(args.width, args.layers, args.context).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=device.type == "cuda")
    window = torch.arange(args.context + 1, device=device)
    print(f"{len(text) / 1e6:.1f} MB of text, {sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters, training on {device}")
    started = time.perf_counter()
    for step in range(args.steps):
        starts = torch.randint(len(text) - args.context - 1, (args.batch_size, 1), device=device)
        batch = data[starts + window].long()
        logits = model(batch[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"step {step:4d} loss {loss.item():.3f}", flush=True)
    tokens = args.steps * args.batch_size * args.context
    print(f"loss {loss.item():.3f}, {tokens / (time.perf_counter() - started):.0f} tokens/s")


if __name__ == "__main__":
    main()
