# SPDX-License-Identifier: Apache-2.0
"""Assigns the classes of a patent office to abstracts: a small transformer with one output for each class, judged by how it ranks them."""

import argparse
import math

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Abstracts(Dataset):
    """Token ids of abstracts, each with two to nine classes, which leave their own words in the text."""

    def __init__(self, count, classes, vocabulary, length, seed=17):
        rng = np.random.default_rng(seed)
        self.tokens = rng.integers(classes + 1, vocabulary, (4096, length), dtype=np.int64)
        self.codes = [rng.choice(classes, rng.integers(2, 10), replace=False) for _ in self.tokens]
        for row, codes in zip(self.tokens, self.codes):
            row[rng.integers(0, length, 3 * len(codes))] = np.repeat(codes, 3) + 1
        self.count, self.classes = count, classes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        row = index % len(self.tokens)
        target = torch.zeros(self.classes)
        target[self.codes[row]] = 1
        return torch.from_numpy(self.tokens[row]), target


class Tagger(nn.Module):
    def __init__(self, vocabulary, classes, length, width, layers):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, tokens):
        return self.out(self.encoder(self.words(tokens) + self.places).mean(1))


class Ranking:
    """Label-ranking average precision and nDCG over all documents since the last report."""

    def __init__(self, depth=10):
        self.discounts = [1 / math.log2(rank + 2) for rank in range(depth)]
        self.depth = depth
        self.reset()

    def reset(self):
        self.precision = self.gain = 0.0
        self.documents = 0

    def update(self, scores, targets):
        for row, target in zip(scores, targets):
            order = np.argsort(-row, kind="stable")
            relevant = set(np.flatnonzero(target).tolist())
            ranks = [rank for rank, label in enumerate(order.tolist()) if label in relevant]
            self.precision += sum((found + 1) / (rank + 1) for found, rank in enumerate(ranks)) / len(ranks)
            ideal = sum(self.discounts[: len(relevant)])
            self.gain += sum(self.discounts[rank] for rank in ranks if rank < self.depth) / ideal
            self.documents += 1

    def report(self):
        text = f"LRAP {self.precision / max(self.documents, 1):.3f} nDCG@{self.depth} {self.gain / max(self.documents, 1):.3f} of {self.documents}"
        self.reset()
        return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", type=int, default=640)
    parser.add_argument("--vocabulary", type=int, default=20_000)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=192)
    parser.add_argument("--steps", type=int, default=190)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--num-workers", type=int, default=4)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--metric-every", type=int, default=1)
    parser.add_argument("--report-every", type=int, default=50)
    parser.add_argument("--fused", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(17)
    device = torch.device("cuda")
    data = Abstracts(args.steps * args.batch_size, args.classes, args.vocabulary, args.length)
    loader = DataLoader(
        data, args.batch_size, shuffle=True, num_workers=args.num_workers, pin_memory=True, drop_last=True, prefetch_factor=args.prefetch_factor if args.num_workers else None
    )
    model = Tagger(args.vocabulary, args.classes, args.length, args.width, args.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=args.fused or None)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 100, 1.0))
    criterion = nn.BCEWithLogitsLoss()
    ranking = Ranking()
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step, (tokens, target) in enumerate(loader):
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens.to(device, non_blocking=True))
        loss = criterion(logits.float(), target.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % args.metric_every == 0:
            ranking.update(logits.detach().float().cpu().numpy(), target.numpy())
        if (step + 1) % args.report_every == 0:
            print(f"step {step + 1} loss {loss.item():.4f} {ranking.report()}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
