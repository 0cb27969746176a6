# SPDX-License-Identifier: Apache-2.0
"""A training script whose samples cost CPU time: decoding and augmenting, in threads of a library if told to."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset
from training import Model


def decode(milliseconds):
    """Computes in the worker's own thread for so much of its CPU time."""
    image = torch.zeros(64, 64)
    end = time.thread_time() + milliseconds / 1e3
    while time.thread_time() < end:
        image = image @ image
    return image


def augment(image, size, times):
    """Computes in as many threads as the library was given."""
    weights = torch.ones(size, size)
    for _ in range(times):
        weights = (weights @ weights) / size
    return image + weights[:64, :64]


class Images(Dataset):
    def __init__(self, options):
        self.options = options

    def __len__(self):
        return self.options.batches * 4

    def __getitem__(self, index):
        image = decode(self.options.decode_ms)
        return augment(image, 512, self.options.augment_times) if self.options.augment_times else image


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker's library")
    parser.add_argument("--decode-ms", type=float, default=0.2)
    parser.add_argument("--augment-times", type=int, default=0)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--train-ms", type=float, default=5)
    options = parser.parse_args()

    model = Model(options.train_ms)
    loader = DataLoader(Images(options), 4, num_workers=options.workers, worker_init_fn=lambda _: torch.set_num_threads(options.threads))
    for batch in loader:
        model.step(batch)
    model.print_times()


if __name__ == "__main__":
    main()
