# SPDX-License-Identifier: Apache-2.0
"""Neural collaborative filtering: interactions as tensors, whole batches taken at once, negatives drawn for the batch."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

USERS, ITEMS = 3000, 2000


class Interactions(Dataset):
    """Takes a list of indices: one call makes a batch."""

    def __init__(self, count, negatives):
        random = np.random.default_rng(0)
        self.users, self.items = (
            random.integers(0, USERS, count),
            (random.pareto(1.5, count) * 40).astype(np.int64) % ITEMS,
        )
        self.negatives = negatives

    def __len__(self):
        return len(self.users)

    def __getitem__(self, chosen):
        users = np.repeat(self.users[chosen], 1 + self.negatives)
        items = np.random.randint(0, ITEMS, (len(chosen), 1 + self.negatives))
        items[:, 0] = self.items[chosen]
        wanted = np.zeros(items.shape, np.float32)
        wanted[:, 0] = 1
        return (
            torch.from_numpy(users),
            torch.from_numpy(items.ravel()),
            torch.from_numpy(wanted.ravel()),
        )


class NeuMF(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.user_mf, self.item_mf = nn.Embedding(USERS, dim), nn.Embedding(ITEMS, dim)
        self.user_mlp, self.item_mlp = (
            nn.Embedding(USERS, dim),
            nn.Embedding(ITEMS, dim),
        )
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, dim),
            nn.ReLU(),
        )
        self.predict = nn.Linear(2 * dim, 1)

    def forward(self, users, items):
        deep = self.mlp(torch.cat([self.user_mlp(users), self.item_mlp(items)], 1))
        return self.predict(
            torch.cat([self.user_mf(users) * self.item_mf(items), deep], 1)
        ).squeeze(1)


@torch.no_grad()
def hit_ratio(model, users):
    scores = model(
        users.repeat_interleave(100), torch.randint(0, ITEMS, (len(users) * 100,))
    ).view(-1, 100)
    return (scores[:, 1:] > scores[:, :1]).sum(1).lt(10).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=256, help="positives")
    parser.add_argument("--negatives", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--evaluate-every", type=int, default=250)
    parser.add_argument("--steps", type=int, default=420)
    args = parser.parse_args()
    torch.manual_seed(0)
    data = Interactions(args.steps * args.batch_size, args.negatives)
    extra = {"prefetch_factor": args.prefetch_factor} if args.num_workers else {}
    batches = BatchSampler(RandomSampler(data), args.batch_size, drop_last=True)
    loader = DataLoader(
        data, batch_size=None, sampler=batches, num_workers=args.num_workers, **extra
    )
    model = NeuMF(32, args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    meter = Meter(20, args.batch_size)
    for step, (users, items, wanted) in enumerate(loader):
        loss = F.binary_cross_entropy_with_logits(model(users, items), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"{step}: loss {loss.item():.4f}")
        if step % args.evaluate_every == args.evaluate_every - 1:
            print(f"{step}: HR@10 {hit_ratio(model, torch.arange(64)):.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
