# SPDX-License-Identifier: Apache-2.0
"""A training script whose samples take a while to make, as from a slow source."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from training import Model


class Samples(Dataset):
    """Each batch costs `service_ms`; every `slow_every`-th one `slow_ms`."""

    def __init__(self, options):
        self.options = options

    def __len__(self):
        return self.options.batches * self.options.batch_size

    def __getitem__(self, index):
        options = self.options
        batch = index // options.batch_size
        is_slow = options.slow_every and batch % options.slow_every == options.slow_every - 1
        time.sleep((options.slow_ms if is_slow else options.service_ms) / 1e3 / options.batch_size)
        if options.columns:
            return {f"column{number}": float(index) for number in range(options.columns)}
        if options.list_length:
            return [float(index)] * options.list_length
        return torch.full((16,), float(index))


class Parts(IterableDataset):
    """The same samples in `parts` files: a worker reads whole ones."""

    def __init__(self, options):
        self.samples, self.parts = Samples(options), options.parts

    def __iter__(self):
        worker = get_worker_info()
        each = len(self.samples) // self.parts
        for part in range(self.parts)[worker.id :: worker.num_workers]:
            for index in range(part * each, (part + 1) * each):
                yield self.samples[index]


class SlowCollate:
    """Does work that belongs elsewhere before it stacks the samples."""

    def __init__(self, milliseconds):
        self.milliseconds = milliseconds

    def __call__(self, samples):
        time.sleep(self.milliseconds / 1e3)
        return torch.stack(samples)


def as_they_are(samples):
    return [torch.zeros(16), samples]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--out-of-order", action="store_true")
    parser.add_argument("--validate", action="store_true", help="a second loader, after each epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batches", type=int, default=80, help="of an epoch")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--service-ms", type=float, default=20)
    parser.add_argument("--slow-ms", type=float, default=0)
    parser.add_argument("--slow-every", type=int, default=0)
    parser.add_argument("--collate-ms", type=float, default=0)
    parser.add_argument("--list-length", type=int, default=0, help="samples are lists of numbers, handed over as they are")
    parser.add_argument("--columns", type=int, default=0, help="samples are dicts of so many numbers, of each of which a batch has a tensor")
    parser.add_argument("--parts", type=int, default=0, help="an IterableDataset of so many files")
    parser.add_argument("--train-ms", type=float, default=20)
    return parser.parse_args()


def validate(loader):
    for _, _ in zip(loader, range(10)):
        time.sleep(0.002)


def main():
    options = parse()
    model = Model(options.train_ms)
    common = dict(num_workers=options.workers, prefetch_factor=options.prefetch, persistent_workers=options.persistent)
    collate = as_they_are if options.list_length else SlowCollate(options.collate_ms) if options.collate_ms else None
    samples = Parts(options) if options.parts else Samples(options)
    loader = DataLoader(samples, options.batch_size, in_order=not options.out_of_order, collate_fn=collate, **common)
    validation = DataLoader(Samples(options), options.batch_size, num_workers=1) if options.validate else None
    for _ in range(options.epochs):
        for batch in loader:
            model.step(torch.stack(list(batch.values())[:16], dim=1).float() if options.columns else batch)
        if validation:
            validate(validation)
    model.print_times()


if __name__ == "__main__":
    main()
