# SPDX-License-Identifier: Apache-2.0
"""Two towers find the passage that answers a question: an endless stream of a question, its passage and some wrong passages."""

import argparse
import itertools

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Triples(IterableDataset):
    def __init__(self, passages, vocabulary, length, negatives, draw):
        rng = np.random.RandomState(6)
        self.passages = rng.randint(1, vocabulary, (passages, length))
        self.negatives, self.draw = negatives, draw

    def question(self, passage):
        """Half of the passage's words, in another order."""
        words = np.random.permutation(passage)
        return words[: len(words) // 2]

    def wrong_passages(self, number):
        if self.draw == "choice":
            drawn = np.random.choice(len(self.passages), self.negatives + 1, replace=False)
        else:
            drawn = np.random.randint(0, len(self.passages), self.negatives + 1)
        return drawn[drawn != number][: self.negatives]

    def __iter__(self):
        worker = get_worker_info()
        np.random.seed(worker.id if worker else 0)
        while True:
            number = np.random.randint(len(self.passages))
            wrong = self.wrong_passages(number)
            yield self.question(self.passages[number]), self.passages[number], self.passages[wrong]


class Tower(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.words, self.gru = words, nn.GRU(words.embedding_dim, dim, batch_first=True)
        self.project = nn.Linear(2 * dim, dim)

    def forward(self, tokens):
        states, last = self.gru(self.words(tokens))
        return F.normalize(self.project(torch.cat([states.mean(1), last[0]], 1)), dim=1)


class TwoTowers(nn.Module):
    def __init__(self, vocabulary, dim):
        super().__init__()
        words = nn.Embedding(vocabulary, dim)
        self.questions, self.passages = Tower(words, dim), Tower(words, dim)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, questions, right, wrong):
        batch, count, length = wrong.shape
        q, p = self.questions(questions), self.passages(right)
        n = self.passages(wrong.view(batch * count, length)).view(batch, count, -1)
        return self.scale.exp() * torch.cat([(q * p).sum(1, keepdim=True), torch.einsum("bd,bnd->bn", q, n)], 1)


def train(model, batches, optimizer, scheduler, meter, log_every):
    mean = None
    for step, batch in enumerate(batches):
        scores = model(*batch)
        loss = F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % log_every == 0:
            mean = loss.item() if mean is None else 0.8 * mean + 0.2 * loss.item()
            print(f"step {step} loss {mean:.4f} lr {scheduler.get_last_lr()[0]:.2e}")
        meter.step()


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--passages", type=int, default=120_000)
    cli.add_argument("--vocabulary", type=int, default=5000)
    cli.add_argument("--length", type=int, default=32)
    cli.add_argument("--negatives", type=int, default=4)
    cli.add_argument("--draw", choices=["choice", "randint"], default="choice")
    cli.add_argument("--batch-size", type=int, default=32)
    cli.add_argument("--num-workers", type=int, default=1)
    cli.add_argument("--prefetch-factor", type=int, default=2)
    cli.add_argument("--dim", type=int, default=96)
    cli.add_argument("--steps", type=int, default=100)
    cli.add_argument("--log-every", type=int, default=10)
    args = cli.parse_args()
    torch.manual_seed(6)

    data = Triples(args.passages, args.vocabulary, args.length, args.negatives, args.draw)
    loader = DataLoader(data, args.batch_size, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor if args.num_workers else None)
    model = TwoTowers(args.vocabulary, args.dim)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=args.steps + 1)
    meter = Meter(10, args.batch_size)
    train(model, itertools.islice(loader, args.steps), optimizer, scheduler, meter, args.log_every)
    meter.print()
