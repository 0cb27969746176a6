# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters for a decoder with frozen weights, on pairs of instruction and answer that all have one length."""

import argparse
import math

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 32000


class Instructions(Dataset):
    def __init__(self, count, length):
        self.tokens = torch.randint(0, VOCABULARY, (count, length + 1))
        self.labels = self.tokens.clone()
        self.labels[:, : length // 3] = -100

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index, :-1], self.labels[index, 1:]


class LoraLinear(nn.Module):
    def __init__(self, inputs, outputs, rank, alpha=16):
        super().__init__()
        weight = torch.empty(outputs, inputs, dtype=torch.bfloat16, device="cuda").normal_(std=0.02)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.down = nn.Parameter(torch.randn(rank, inputs, dtype=torch.bfloat16, device="cuda") / math.sqrt(inputs))
        self.up = nn.Parameter(torch.zeros(outputs, rank, dtype=torch.bfloat16, device="cuda"))
        self.scale = alpha / rank

    def forward(self, x):
        return F.linear(x, self.weight) + self.scale * F.linear(F.linear(x, self.down), self.up)


def frozen(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False, dtype=torch.bfloat16, device="cuda").requires_grad_(False)


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, rank):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = (nn.RMSNorm(dim, dtype=torch.bfloat16, device="cuda").requires_grad_(False) for _ in range(2))
        self.q, self.v = LoraLinear(dim, dim, rank), LoraLinear(dim, dim, rank)
        self.k, self.o = frozen(dim, dim), frozen(dim, dim)
        self.gate, self.up, self.down = frozen(dim, 11 * dim // 4), frozen(dim, 11 * dim // 4), frozen(11 * dim // 4, dim)

    def forward(self, x):
        shape = (*x.shape[:2], self.heads, -1)
        y = self.norm1(x)
        q, k, v = (part(y).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, dim, layers, rank):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, dim, dtype=torch.bfloat16, device="cuda").requires_grad_(False)
        self.layers = nn.ModuleList([DecoderLayer(dim, dim // 128, rank) for _ in range(layers)])
        self.norm = nn.RMSNorm(dim, dtype=torch.bfloat16, device="cuda").requires_grad_(False)
        self.head = frozen(dim, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--per-device-batch-size", type=int, default=1)
    parser.add_argument("--global-batch-size", type=int, default=8)
    parser.add_argument("--cutoff-len", type=int, default=48)
    parser.add_argument("--hidden-size", type=int, default=10240)
    parser.add_argument("--num-layers", type=int, default=3)
    parser.add_argument("--lora-r", type=int, default=8)
    parser.add_argument("--max-steps", type=int, default=75)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--logging-steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)

    size, accumulate = args.per_device_batch_size, max(1, args.global_batch_size // args.per_device_batch_size)
    data = Instructions(args.max_steps * accumulate * size, args.cutoff_len)
    loader = DataLoader(data, size, shuffle=True, num_workers=args.num_workers, pin_memory=True)
    model = Decoder(args.hidden_size, args.num_layers, args.lora_r)
    adapters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=3e-4, fused=args.fused or None)
    print(f"{sum(p.numel() for p in adapters):,} of {sum(p.numel() for p in model.parameters()):,} parameters are trained")
    meter = Meter(10, size * accumulate, torch.cuda.synchronize)
    for micro_step, (tokens, labels) in enumerate(loader):
        tokens, labels = tokens.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        loss = F.cross_entropy(model(tokens).float().flatten(0, 1), labels.flatten(), ignore_index=-100) / accumulate
        loss.backward()
        if (micro_step + 1) % accumulate:
            continue
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step = (micro_step + 1) // accumulate
        if step % args.logging_steps == 0:
            print({"step": step, "loss": round(loss.item() * accumulate, 4)})
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
