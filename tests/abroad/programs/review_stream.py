# SPDX-License-Identifier: Apache-2.0
"""Sentiment from compressed JSON lines: an IterableDataset fills a buffer, shuffles it, empties it, and fills it again."""

import argparse
import gzip
import itertools
import json
import random
import zlib
from pathlib import Path

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Reviews(IterableDataset):
    def __init__(self, folder, words, buckets, buffer, rolling):
        self.shards, self.words, self.buckets = (
            sorted(Path(folder).glob("*.jsonl.gz")),
            words,
            buckets,
        )
        self.buffer, self.rolling = buffer, rolling

    def features(self, line):
        review = json.loads(line)
        words = review["text"].split()
        grams = [
            *words,
            *(f"{first} {second}" for first, second in zip(words, words[1:])),
        ]
        hashed = [1 + zlib.crc32(gram.encode()) % (self.buckets - 1) for gram in grams][
            : self.words
        ]
        return torch.tensor(hashed + [0] * (self.words - len(hashed))), int(
            review["stars"] > 3
        )

    def lines(self):
        info = get_worker_info()
        mine = self.shards[info.id :: info.num_workers] if info else self.shards
        for shard in itertools.cycle(mine):
            with gzip.open(shard, "rt") as file:
                yield from file

    def __iter__(self):
        lines, dice = self.lines(), random.Random(0)
        if not self.rolling:
            while True:
                held = [
                    self.features(line) for line in itertools.islice(lines, self.buffer)
                ]
                dice.shuffle(held)
                yield from held
        held = [self.features(line) for line in itertools.islice(lines, self.buffer)]
        for line in lines:
            place = dice.randrange(len(held))
            yield held[place]
            held[place] = self.features(line)


class TextCNN(nn.Module):
    def __init__(self, buckets, width):
        super().__init__()
        self.bag = nn.EmbeddingBag(buckets, width, sparse=True, padding_idx=0)
        self.sequence = nn.Embedding(buckets, 32, sparse=True)
        self.filters = nn.Conv1d(32, 64, 5, padding=2)
        self.head = nn.Linear(width + 64, 2)

    def forward(self, words):
        local = self.filters(self.sequence(words).transpose(1, 2)).relu().amax(2)
        return self.head(torch.cat([self.bag(words), local], 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reviews", required=True)
    parser.add_argument(
        "--buffer", type=int, default=1024, help="samples that are shuffled together"
    )
    parser.add_argument(
        "--rolling",
        action="store_true",
        help="replace one sample of the buffer at a time",
    )
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--words", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=576)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core is the loader's
    extra = {"prefetch_factor": args.prefetch_factor} if args.num_workers else {}
    reviews = Reviews(args.reviews, args.words, 50_000, args.buffer, args.rolling)
    loader = DataLoader(reviews, args.batch_size, num_workers=args.num_workers, **extra)
    model = TextCNN(50_000, 128)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    meter = Meter(64, args.batch_size)
    for step, (words, stars) in zip(range(args.steps), loader):
        loss = F.cross_entropy(model(words), stars)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{step}: {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
