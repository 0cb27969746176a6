# SPDX-License-Identifier: Apache-2.0
"""Click log in Parquet, shuffled row by row: the Dataset reads the row group in which the sample lies and takes one row of it."""

import argparse
import bisect

import numpy as np
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

NUMBERS = [f"i{number}" for number in range(13)]
CATEGORIES = [f"c{number}" for number in range(8)]


class Clicks(Dataset):
    def __init__(self, path, columns, keep_group):
        self.path, self.columns, self.keep_group = path, columns, keep_group
        meta = pq.read_metadata(path)
        rows = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
        self.starts = np.cumsum([0, *rows]).tolist()
        self.file, self.held = None, (None, None)

    def __len__(self):
        return self.starts[-1]

    def group(self, number):
        if self.held[0] == number:
            return self.held[1]
        if self.file is None:  # once for each worker
            self.file = pq.ParquetFile(self.path)
        table = self.file.read_row_group(
            number, columns=self.columns, use_threads=False
        )
        if self.keep_group:
            self.held = number, table
        return table

    def __getitem__(self, index):
        number = bisect.bisect_right(self.starts, index) - 1
        row = self.group(number).slice(index - self.starts[number], 1).to_pylist()[0]
        dense = torch.tensor([row[name] for name in NUMBERS])
        return (
            torch.log1p(dense),
            torch.tensor([row[name] for name in CATEGORIES]),
            torch.tensor(float(row["click"])),
        )


class GroupSampler(Sampler):
    """Row groups in random order, and the rows of each in random order."""

    def __init__(self, dataset):
        self.starts = dataset.starts

    def __len__(self):
        return self.starts[-1]

    def __iter__(self):
        for group in torch.randperm(len(self.starts) - 1).tolist():
            first, last = self.starts[group : group + 2]
            yield from (torch.randperm(last - first) + first).tolist()


class DeepFM(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embed = nn.Embedding(8 * 1000, 16)
        self.deep = nn.Sequential(
            nn.Linear(13 + 8 * 16, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, dense, categories):
        vectors = self.embed(categories + torch.arange(8) * 1000)
        crossed = (vectors.sum(1).square() - vectors.square().sum(1)).sum(1) / 2
        return self.deep(torch.cat([dense, vectors.flatten(1)], 1)).squeeze(1) + crossed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parquet", required=True)
    parser.add_argument(
        "--shuffle",
        choices=["rows", "groups"],
        default="rows",
        help="groups: read each row group once",
    )
    parser.add_argument(
        "--only-columns",
        action="store_true",
        help="read the columns that the model uses, and no others",
    )
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=1280)
    parser.add_argument("--steps", type=int, default=170)
    args = parser.parse_args()
    torch.manual_seed(0)
    columns = [*NUMBERS, *CATEGORIES, "click"] if args.only_columns else None
    clicks = Clicks(args.parquet, columns, keep_group=args.shuffle == "groups")
    order = (
        {"sampler": GroupSampler(clicks)}
        if args.shuffle == "groups"
        else {"shuffle": True}
    )
    loader = DataLoader(
        clicks, args.batch_size, num_workers=args.num_workers, drop_last=True, **order
    )
    model = DeepFM(args.hidden)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    meter = Meter(20, args.batch_size)
    for step, (dense, categories, click) in zip(range(args.steps), loader):
        loss = F.binary_cross_entropy_with_logits(model(dense, categories), click)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: logloss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
