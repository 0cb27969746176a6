# SPDX-License-Identifier: Apache-2.0
"""Rows of a SQLite table: compressed features, one query for each sample."""

import argparse
import sqlite3
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, path, connect_once):
        self.path, self.connect_once, self.connection = path, connect_once, None
        with sqlite3.connect(path) as connection:
            (self.count,) = connection.execute("select count(*) from samples").fetchone()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        connection = self.connection or sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        if self.connect_once:
            self.connection = connection
        label, features = connection.execute("select label, features from samples where id = ?", (index,)).fetchone()
        if not self.connect_once:
            connection.close()
        return torch.from_numpy(np.frombuffer(zlib.decompress(features), np.float32).copy()), label


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--connect-once", action="store_true")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=250)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Rows(args.database, args.connect_once), args.batch_size, shuffle=True, num_workers=args.workers)
    model = nn.Sequential(nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    meter = Meter(20, args.batch_size)
    for step, (x, y) in zip(range(args.steps), loader):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(step, round(loss.item(), 4))
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
