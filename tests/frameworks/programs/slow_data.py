# SPDX-License-Identifier: Apache-2.0
"""PyTorch datasets of known cost, and a model small enough to cost nothing."""

import time

import torch
from common import BATCH, SAMPLE_MS, SAMPLES
from torch.utils.data import Dataset, IterableDataset

torch.set_num_threads(1)


def sample(index):
    time.sleep(SAMPLE_MS / 1e3)
    return torch.full((4,), float(index)), torch.tensor([1.0])


class Slow(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return sample(index)


class SlowStream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, stride = (info.id, info.num_workers) if info else (0, 1)
        yield from (sample(index) for index in range(first, SAMPLES, stride))


def model():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 1)


def time_loaders(waits):
    """Notes each next() of a DataLoader's iterator, whoever asks: between that and the user's loop a framework does work of
    its own, which is no waiting. The timer's code passes for a library's, as it is neither the user's nor torch's."""
    iterate = torch.utils.data.DataLoader.__iter__

    class Timed:
        def __init__(self, batches):
            self.batches = batches

        def __iter__(self):
            return self

        def __next__(self):
            began = time.monotonic_ns()
            try:
                return next(self.batches)
            finally:
                waits.note(began)

    def timed(loader):
        return Timed(iterate(loader))

    for function in (Timed.__next__, timed):
        function.__code__ = function.__code__.replace(co_filename="/site-packages/timer.py")
    torch.utils.data.DataLoader.__iter__ = timed


__all__ = ["BATCH", "SAMPLES", "Slow", "SlowStream", "model", "sample", "time_loaders", "torch"]
