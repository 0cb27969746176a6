# SPDX-License-Identifier: Apache-2.0
"""3-D patches from HDF5 volumes. The file was written in compressed chunks of four volumes; `--dataset flat` holds the same plain."""

import argparse

import h5py
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Volumes(Dataset):
    def __init__(self, path, dataset, count):
        self.path, self.dataset, self.count, self.file = path, dataset, count, None

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path, "r", rdcc_nbytes=0)
        return torch.from_numpy(self.file[self.dataset][index * 7 % 64])[None, 8:40, 8:40, 8:40], torch.tensor(index % 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--volumes", required=True)
    parser.add_argument("--dataset", default="whole", choices=["whole", "flat"])
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--steps", type=int, default=120)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Volumes(args.volumes, args.dataset, args.steps * args.batch_size), args.batch_size, shuffle=True, num_workers=args.num_workers)
    model = nn.Sequential(nn.Conv3d(1, 8, 3, 2), nn.ReLU(), nn.Conv3d(8, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    meter = Meter(20, args.batch_size)
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(step, loss.item())
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
