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


__all__ = ["BATCH", "SAMPLES", "Slow", "SlowStream", "model", "sample", "torch"]
