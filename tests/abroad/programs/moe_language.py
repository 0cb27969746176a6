# SPDX-License-Identifier: Apache-2.0
"""A language model whose feed-forward layers are mixtures of experts, with GShard's dispatch by one-hot products."""

import argparse
import math

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class Gate(nn.Module):
    """Top-1 gate. Where a place in an expert must be found for each token, the fullest expert decides how many places there are."""

    def __init__(self, dim, experts, factor, drop_tokens):
        super().__init__()
        self.weight = nn.Linear(dim, experts, bias=False)
        self.experts, self.factor, self.drop_tokens = experts, factor, drop_tokens

    def forward(self, tokens):
        probabilities = self.weight(tokens).float().softmax(1)
        chosen = F.one_hot(probabilities.argmax(1), self.experts)
        capacity = math.ceil(len(tokens) / self.experts * self.factor)
        if not self.drop_tokens:
            capacity = max(capacity, int(chosen.sum(0).max()))
        balance = self.experts * (probabilities.mean(0) * chosen.float().mean(0)).sum()
        place = (chosen.cumsum(0) - 1) * chosen
        chosen = chosen * (place < capacity)
        weights = (probabilities * chosen).sum(1)
        slots = F.one_hot((place * chosen).sum(1).clamp(0, capacity - 1), capacity).to(tokens.dtype)
        dispatch = chosen.to(tokens.dtype)[:, :, None] * slots[:, None]
        return dispatch, dispatch * weights[:, None, None].to(tokens.dtype), balance


class Experts(nn.Module):
    def __init__(self, dim, experts, factor, drop_tokens):
        super().__init__()
        self.gate = Gate(dim, experts, factor, drop_tokens)
        self.up = nn.Parameter(torch.randn(experts, dim, 4 * dim) * 0.02)
        self.down = nn.Parameter(torch.randn(experts, 4 * dim, dim) * 0.02)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        dispatch, combine, balance = self.gate(tokens)
        inside = torch.einsum("tec,td->ecd", dispatch, tokens)
        inside = torch.bmm(F.gelu(torch.bmm(inside, self.up.to(inside.dtype))), self.down.to(inside.dtype))
        return torch.einsum("tec,ecd->td", combine, inside).view_as(x), balance


class Layer(nn.Module):
    def __init__(self, dim, heads, **experts):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.experts = Experts(dim, **experts)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, dim))
        y, balance = self.experts(self.norm2(x).bfloat16())
        return x + y, balance


class Model(nn.Module):
    def __init__(self, vocabulary, dim, layers, **layer):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList([Layer(dim, **layer) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, tokens):
        x, auxiliary = self.tokens(tokens), 0
        for layer in self.layers:
            x, balance = layer(x)
            auxiliary = auxiliary + balance
        return self.head(self.norm(x)), auxiliary / len(self.layers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--capacity-factor", type=float, default=1.25)
    parser.add_argument("--drop-tokens", action="store_true", help="tokens that find their expert full pass by")
    parser.add_argument("--fused-adam", action="store_true")
    parser.add_argument("--iterations", type=int, default=160)
    parser.add_argument("--log-interval", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)

    experts = {"experts": args.experts, "factor": args.capacity_factor, "drop_tokens": args.drop_tokens}
    model = Model(16000, args.dim, args.layers, heads=8, **experts).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=args.fused_adam or None)
    corpus = torch.randint(0, 16000, (512, args.length + 1), device="cuda")
    meter = Meter(20, args.micro_batch, torch.cuda.synchronize)
    for iteration in range(args.iterations):
        text = corpus[iteration * args.micro_batch % 480 :][: args.micro_batch]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits, balance = model(text[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten()) + 0.01 * balance
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if iteration % args.log_interval == 0:
            print(f"iteration {iteration} | loss {loss.item():.3f} | balance {balance.item():.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
