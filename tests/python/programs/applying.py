# SPDX-License-Identifier: Apache-2.0
"""Trains over DataLoaders that are set up in different ways, and prints how each of them sees itself, which samples came in
which order, and the losses; once per line of JSON: {"name": ..., ...}."""

import gc
import inspect
import json
import multiprocessing
import sys
import threading

import torch
from feeders import join_feeders
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

SETTINGS = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "in_order", "timeout", "drop_last")


class Numbers(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.tensor([float(index)])


class Stream(IterableDataset):
    def __iter__(self):
        return (torch.tensor([float(i)]) for i in range(12))


class Shared(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return (torch.tensor([float(i)]) for i in range(info.id if info else 0, 12, info.num_workers if info else 1))


class Threads(Dataset):
    """Says how many threads its worker computes with."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.tensor([float(torch.get_num_threads() if get_worker_info() else 0)])


class Nested(Dataset):
    """Each sample is read by a loader of its own, which may not have workers where this one has."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.cat(list(DataLoader(Numbers(), 20)))[index]


class Own(DataLoader):
    pass


def seen(name, loader, **more):
    view = {setting: getattr(loader, setting, None) for setting in SETTINGS}
    context = loader.multiprocessing_context
    view["multiprocessing_context"] = context and context.get_start_method()
    print(json.dumps({"name": name, **view, **more}), flush=True)


def train(loader):
    torch.manual_seed(7)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    samples, losses = [], []
    for batch in loader:
        samples.append(batch.flatten().tolist())
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"samples": samples, "losses": losses}


def loaders():
    yield "plain", DataLoader(Numbers(), 4, shuffle=True)
    yield "second", DataLoader(Numbers(), batch_size=8)
    yield "workers", DataLoader(Numbers(), 4, num_workers=1, prefetch_factor=3, persistent_workers=True)
    yield "subclass", Own(dataset=Numbers(), batch_size=5, drop_last=True)
    yield "timeout", DataLoader(Numbers(), 8, num_workers=1, timeout=60)
    yield "stream", DataLoader(Stream(), 4)
    yield "repeating", DataLoader(Stream(), 4, num_workers=2)
    yield "shared", DataLoader(Shared(), 4)
    yield "threads", DataLoader(Threads(), 1)
    yield "nested", DataLoader(Nested(), 2)


def main():
    for name, loader in loaders():
        torch.manual_seed(3)
        seen(name, loader, **train(loader))
    del loader
    join_feeders()  # their number is a matter of chance: 1 to 3 in 32 runs beside each other
    print(json.dumps({
        "name": "process", "signature": str(inspect.signature(DataLoader.__init__)), "frozen": gc.get_freeze_count() > 0,
        "precision": torch.get_float32_matmul_precision(), "benchmark": torch.backends.cudnn.benchmark,
        "threads": threading.active_count(), "children": len(multiprocessing.active_children()),
    }))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
