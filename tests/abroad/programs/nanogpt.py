# SPDX-License-Identifier: Apache-2.0
"""Character-level GPT in one file: tokens in a memory-mapped file, random crops, AdamW, evaluation now and then."""

import argparse
import math
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--device", default="cuda")
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--tf32", action="store_true")
parser.add_argument("--batch-size", type=int, default=12)
parser.add_argument("--block-size", type=int, default=512)
parser.add_argument("--n-layer", type=int, default=6)
parser.add_argument("--n-head", type=int, default=6)
parser.add_argument("--n-embd", type=int, default=768)
parser.add_argument("--max-iters", type=int, default=120)
parser.add_argument("--eval-interval", type=int, default=100)
parser.add_argument("--eval-iters", type=int, default=4)
parser.add_argument("--log-interval", type=int, default=10)
parser.add_argument("--warmup-iters", type=int, default=20)
args = parser.parse_args()

torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = args.tf32
vocab_size = 128


def get_batch(split):
    data = np.memmap(f"{args.data}/{split}.bin", dtype=np.uint16, mode="r")
    ix = torch.randint(len(data) - args.block_size, (args.batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + args.block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + args.block_size].astype(np.int64)) for i in ix])
    if args.device == "cuda":
        return x.pin_memory().to("cuda", non_blocking=True), y.pin_memory().to("cuda", non_blocking=True)
    return x, y


class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, args.n_embd), nn.Embedding(args.block_size, args.n_embd)
        self.h = nn.ModuleList([Block(args.n_embd, args.n_head) for _ in range(args.n_layer)])
        self.ln_f, self.lm_head = nn.LayerNorm(args.n_embd), nn.Linear(args.n_embd, vocab_size, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))


model = GPT().to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=args.device == "cuda")
ctx = torch.autocast(args.device, dtype=torch.bfloat16) if args.dtype == "bfloat16" else nullcontext()


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = {}
    for split in ("train", "val"):
        losses = torch.zeros(args.eval_iters)
        for k in range(args.eval_iters):
            X, Y = get_batch(split)
            with ctx:
                losses[k] = model(X, Y).item()
        out[split] = losses.mean()
    model.train()
    return out


def get_lr(it):
    return 6e-4 * min(1, (it + 1) / 50) * 0.5 * (1 + math.cos(math.pi * it / args.max_iters))


meter = Meter(args.warmup_iters, args.batch_size, torch.cuda.synchronize if args.device == "cuda" else lambda: None)
X, Y = get_batch("train")
for it in range(args.max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    if it % args.eval_interval == 0 and it > 0:
        losses = estimate_loss()
        print(f"step {it}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
    with ctx:
        loss = model(X, Y)
    X, Y = get_batch("train")
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if it % args.log_interval == 0:
        print(f"iter {it}: loss {loss.item():.4f}")
    meter.step()
meter.print()
