# SPDX-License-Identifier: Apache-2.0
"""Rock types along drill cores from the chemical assays of an interval and of those above and below it. Assays are parts of a whole,
so they are turned into centred log-ratios; what lies below the laboratory's limit of detection is imputed at random."""

import argparse
import dataclasses

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

ELEMENTS, ROCKS, NEIGHBOURS = 24, 9, 5


@dataclasses.dataclass
class Cores:
    """Intervals of all holes, one after the other. `first` and `last` bound the hole that an interval is of."""

    assays: np.ndarray
    depth: np.ndarray
    first: np.ndarray
    last: np.ndarray
    rock: np.ndarray
    limit: np.ndarray

    @classmethod
    def generated(cls, holes, intervals, seed=23):
        rng = np.random.default_rng(seed)
        typical = rng.normal(0, 2, (ROCKS, ELEMENTS))
        beds = rng.integers(0, ROCKS, (holes, intervals // 10)).repeat(10, 1)
        raw = np.exp(typical[beds] + rng.normal(0, 0.7, (*beds.shape, ELEMENTS)))
        assays = (raw / raw.sum(-1, keepdims=True)).astype(np.float32).reshape(-1, ELEMENTS)
        hole = np.arange(holes).repeat(beds.shape[1]) * beds.shape[1]
        depth = np.tile(np.arange(beds.shape[1], dtype=np.float32), holes)
        return cls(assays, depth, hole, hole + beds.shape[1] - 1, beds.reshape(-1), np.quantile(assays, 0.08, 0))


def centred_log_ratio(parts):
    logs = np.log(parts)
    return logs - logs.mean(-1, keepdims=True)


class Intervals(Dataset):
    """One interval and its neighbours; at the ends of a hole the outermost is repeated."""

    def __init__(self, cores):
        self.cores = cores
        self.offsets = np.arange(NEIGHBOURS) - NEIGHBOURS // 2
        self.rng = None

    def __len__(self):
        return len(self.cores.rock)

    def imputed(self, assays):
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed() % 2**32)
        below = assays < self.cores.limit
        return np.where(below, self.cores.limit * self.rng.uniform(0.3, 1.0, assays.shape), assays)

    def __getitem__(self, index):
        rows = np.clip(index + self.offsets, self.cores.first[index], self.cores.last[index])
        ratios = centred_log_ratio(self.imputed(self.cores.assays[rows]))
        return {"ratios": ratios.astype(np.float32), "depth": self.cores.depth[index] / 100, "rock": self.cores.rock[index]}


class ManyIntervals(Intervals):
    """The same for an array of indices: what comes out is a batch."""

    def __getitem__(self, indices):
        index = np.asarray(indices)
        rows = np.clip(index[:, None] + self.offsets, self.cores.first[index, None], self.cores.last[index, None])
        ratios = centred_log_ratio(self.imputed(self.cores.assays[rows])).astype(np.float32)
        return {"ratios": torch.from_numpy(ratios), "depth": torch.from_numpy(self.cores.depth[index] / 100), "rock": torch.from_numpy(self.cores.rock[index])}


class RockNet(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.along = nn.Conv1d(ELEMENTS, 32, 3, padding=1)
        self.lift = nn.Linear(32 * NEIGHBOURS + 1, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(blocks))
        self.head = nn.Linear(width, ROCKS)

    def forward(self, ratios, depth):
        x = torch.relu(self.along(ratios.transpose(1, 2))).flatten(1)
        x = self.lift(torch.cat([x, depth[:, None]], 1))
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def loader_of(cores, args):
    common = {"num_workers": args.num_workers, "persistent_workers": args.num_workers > 0}
    if args.num_workers:
        common["prefetch_factor"] = args.prefetch_factor
    if args.fetch == "batch":
        data = ManyIntervals(cores)
        return DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), args.batch_size, drop_last=True), **common)
    return DataLoader(Intervals(cores), args.batch_size, shuffle=True, drop_last=True, **common)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--holes", type=int, default=300)
    parser.add_argument("--intervals", type=int, default=400, help="of a hole")
    parser.add_argument("--fetch", choices=["interval", "batch"], default="interval", help="what the dataset is asked for")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--steps", type=int, default=450)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(23)
    torch.set_num_threads(args.threads)

    loader = loader_of(Cores.generated(args.holes, args.intervals), args)
    net = RockNet(args.width, args.blocks)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, fused=args.fused)
    meter, step = Meter(30, args.batch_size), 0
    while step < args.steps:
        for batch in loader:
            loss = nn.functional.cross_entropy(net(batch["ratios"], batch["depth"]), batch["rock"], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % args.log_every == 0:
                print(f"step {step:5d}  loss {loss.item():.4f}")
            meter.step()
            if step == args.steps:
                break
    meter.print()


if __name__ == "__main__":
    main()
