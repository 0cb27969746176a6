# SPDX-License-Identifier: Apache-2.0
"""Loader workers that hand over large batches, through /dev/shm."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from training import Model

MIB = 2**20


class Samples(Dataset):
    def __init__(self, batches, mib):
        self.batches, self.mib = batches, mib

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        return torch.full((self.mib * MIB // 4,), float(index))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-mib", type=int, default=4)
    parser.add_argument("--train-ms", type=float, default=60)
    options = parser.parse_args()
    model = Model(options.train_ms)
    for batch in DataLoader(Samples(70, options.batch_mib), 1, num_workers=2):
        model.step(batch)
    model.print_times()


if __name__ == "__main__":
    main()
