# SPDX-License-Identifier: Apache-2.0
"""node2vec on the crossings of a road network: biased random walks, skip-gram with negative samples."""

import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

p = argparse.ArgumentParser()
p.add_argument("--side", type=int, default=150)
p.add_argument("--dim", type=int, default=48)
p.add_argument("--walks-per-batch", type=int, default=64)
p.add_argument("--walk-length", type=int, default=40)
p.add_argument("--window", type=int, default=3)
p.add_argument("--negatives", type=int, default=5)
p.add_argument("-p", dest="p", type=float, default=0.5, help="return parameter")
p.add_argument("-q", dest="q", type=float, default=2.0, help="in-out parameter")
p.add_argument("--walker", choices=["lists", "arrays"], default="lists")
p.add_argument("--walk-jobs", type=int, default=0)
p.add_argument("--prefetch", type=int, default=2)
p.add_argument("--threads", type=int, default=0)
p.add_argument("--optimizer", choices=["sparse", "adagrad"], default="sparse")
p.add_argument("--iterations", type=int, default=340)
p.add_argument("--report", type=int, default=40)
args = p.parse_args()


def road_network(side):
    """A grid with some roads missing, some diagonals and a few motorways."""
    rng, neighbours = random.Random(9), [set() for _ in range(side * side)]

    def connect(a, b):
        neighbours[a].add(b)
        neighbours[b].add(a)

    for row in range(side):
        for column in range(side):
            here = row * side + column
            if column + 1 < side and rng.random() < 0.9:
                connect(here, here + 1)
            if row + 1 < side and rng.random() < 0.9:
                connect(here, here + side)
            if row + 1 < side and column + 1 < side and rng.random() < 0.15:
                connect(here, here + side + 1)
    for _ in range(side * 4):
        connect(rng.randrange(side * side), rng.randrange(side * side))
    for node, others in enumerate(neighbours):
        if not others:
            connect(node, (node + 1) % (side * side))
    return [sorted(others) for others in neighbours], neighbours


class ListWalker:
    def __init__(self, graph, sets):
        self.graph, self.sets = graph, sets

    def walk(self, start):
        path = [start, random.choice(self.graph[start])]
        while len(path) < args.walk_length:
            before, here = path[-2:]
            weights = [1 / args.p if node == before else 1.0 if node in self.sets[before] else 1 / args.q for node in self.graph[here]]
            path.append(random.choices(self.graph[here], weights)[0])
        return path

    def batch(self):
        return torch.tensor([self.walk(random.randrange(len(self.graph))) for _ in range(args.walks_per_batch)])


class ArrayWalker:
    """All walks of a batch at once, on a table of neighbours that is filled up with -1."""

    def __init__(self, graph, sets):
        self.table = np.full((len(graph), max(map(len, graph))), -1)
        for node, others in enumerate(graph):
            self.table[node, : len(others)] = others
        self.rng = np.random.default_rng(9)

    def batch(self):
        before = self.rng.integers(0, len(self.table), args.walks_per_batch)
        paths, here = [before], self.table[before, 0]
        for _ in range(args.walk_length - 1):
            paths.append(here)
            options = self.table[here]
            near = (options[:, :, None] == self.table[before][:, None, :]).any(2)
            weights = np.where(options == before[:, None], 1 / args.p, np.where(near, 1.0, 1 / args.q)) * (options >= 0)
            edges = weights.cumsum(1)
            turn = (edges < self.rng.random((len(here), 1)) * edges[:, -1:]).sum(1)
            before, here = here, options[np.arange(len(here)), turn]
        return torch.from_numpy(np.stack(paths, 1))


class Walks(IterableDataset):
    def __init__(self, walker):
        self.walker = walker

    def __iter__(self):
        while True:
            yield self.walker.batch()


class SkipGram(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        sparse = args.optimizer == "sparse"
        self.center, self.context = nn.Embedding(nodes, args.dim, sparse=sparse), nn.Embedding(nodes, args.dim, sparse=sparse)
        nn.init.normal_(self.center.weight, std=0.1)
        nn.init.zeros_(self.context.weight)

    def forward(self, center, context, negative):
        v = self.center(center)
        wanted = torch.einsum("nd,nwd->nw", v, self.context(context))
        unwanted = v @ self.context(negative).T
        return -(F.logsigmoid(wanted).mean() + args.negatives * F.logsigmoid(-unwanted).mean())


random.seed(9)
torch.manual_seed(9)
if args.threads:
    torch.set_num_threads(args.threads)
graph, sets = road_network(args.side)
walker = {"lists": ListWalker, "arrays": ArrayWalker}[args.walker](graph, sets)
model = SkipGram(len(graph))
optimizer = torch.optim.SparseAdam(model.parameters(), 0.01) if args.optimizer == "sparse" else torch.optim.Adagrad(model.parameters(), 0.1)
stream = iter(DataLoader(Walks(walker), batch_size=None, num_workers=args.walk_jobs, prefetch_factor=args.prefetch)) if args.walk_jobs else iter(Walks(walker))

meter = Meter(20, args.walks_per_batch)
for iteration in range(args.iterations):
    windows = next(stream).unfold(1, 2 * args.window + 1, 1).reshape(-1, 2 * args.window + 1)
    center = windows[:, args.window]
    context = torch.cat([windows[:, : args.window], windows[:, args.window + 1 :]], 1)
    loss = model(center, context, torch.randint(0, len(graph), (128,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if iteration % args.report == 0:
        print(f"{iteration:6d}/{args.iterations}  loss {loss.item():.4f}", flush=True)
    meter.step()
meter.print()
