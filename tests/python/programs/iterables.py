# SPDX-License-Identifier: Apache-2.0
"""One DataLoader over each iterable dataset; prints their names in the order of the loaders."""

import random

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


def mine(paths):
    info = get_worker_info()
    return paths if info is None else paths[info.id :: info.num_workers]


class Loud:
    """A member whose attributes are code of its own: reading them would be heard."""

    def __getattr__(self, name):
        raise SystemExit(f"asked for {name}")


class Plain(IterableDataset):
    def __init__(self):
        super().__init__()
        self.numbers, self.loud, self.weights = list(range(6)), Loud(), torch.ones(6)

    def __iter__(self):
        assert self.loud is not None and LOUD is not None
        return (torch.tensor(number) * self.weights[number] for number in self.numbers)


class Asks(Plain):
    def __iter__(self):
        info = get_worker_info()
        yield from super().__iter__() if info is None else []


class AsksInFunction(Plain):
    @property
    def paths(self):
        return mine(self.numbers)

    def __iter__(self):
        yield from map(torch.tensor, self.paths)


class Wraps(IterableDataset):
    def __init__(self, source):
        super().__init__()
        self.source = source

    def __iter__(self):
        for sample in self.source:
            yield sample + 1


class Recurses(Plain):
    def again(self, depth):
        return self.again(depth - 1) if depth else self.numbers

    def __iter__(self):
        yield from map(torch.tensor, self.again(3))


class Indexed(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.tensor(index)


LOUD = Loud()
loaders = {
    "plain": DataLoader(Plain(), 2),
    "asks": DataLoader(Asks(), 2),
    "asks in a function": DataLoader(AsksInFunction(), 2),
    "wraps plain": DataLoader(Wraps(Plain()), 2),
    "wraps asks": DataLoader(Wraps(Asks()), 2),
    "wraps a library's": DataLoader(Wraps(torch.utils.data.ChainDataset([Plain()])), 2),
    "recurses": DataLoader(Recurses(), 2),
    "split at start": DataLoader(Plain(), 2, worker_init_fn=random.seed),
    "indexed": DataLoader(Indexed(), 2),
}
for loader in loaders.values():
    assert len(list(loader)) == 3
print(*loaders, sep="\n")
