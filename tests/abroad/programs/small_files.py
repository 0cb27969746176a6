# SPDX-License-Identifier: Apache-2.0
"""One .npy file for each sample on shared storage, as a preprocessing script left them."""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, folder, count):
        self.files, self.count = [folder / "files" / f"{number:05}.npy" for number in range(4000)], count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.from_numpy(np.load(self.files[index % 4000])), index % 10


class Packed(Files):
    def __init__(self, folder, count):
        super().__init__(folder, count)
        self.rows = torch.from_numpy(np.load(folder / "packed.npy"))

    def __getitem__(self, index):
        return self.rows[index % 4000], index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--packed", action="store_true", help="read packed.npy instead")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()
    torch.manual_seed(0)
    dataset = (Packed if args.packed else Files)(args.data, args.steps * args.batch_size)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters())
    meter = Meter(20, args.batch_size)
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print("step", step, "loss", loss.item())
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
