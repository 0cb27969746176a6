# SPDX-License-Identifier: Apache-2.0
"""Daily sales of shops: a table of categorical and numeric columns, each a tensor, handed to the network as a dictionary of columns."""

import argparse

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

CATEGORICAL = {
    "store": 54, "city": 22, "state": 16, "store_type": 5, "cluster": 17, "family": 33,
    "weekday": 7, "month": 12, "holiday": 6, "payday": 2, "school": 2, "promo_kind": 9,
}  # fmt: skip
NUMERIC = [
    "onpromotion",
    "oil",
    "transactions",
    "lag_7",
    "lag_14",
    "lag_28",
    "lag_364",
    "mean_7",
    "mean_28",
    "std_28",
    "days_to_holiday",
    "trend",
]


def make_table(rows):
    rng = np.random.default_rng(2017)
    table = {name: torch.from_numpy(rng.integers(0, size, rows)) for name, size in CATEGORICAL.items()}
    table.update({name: torch.from_numpy(rng.standard_normal(rows, dtype=np.float32)) for name in NUMERIC})
    table["sales"] = torch.log1p(table["lag_7"].exp() * 3 + table["store"] / 10)
    return table


class Columns(Dataset):
    """An item is a whole batch: the sampler gives lists of rows."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return len(self.table["sales"])

    def __getitem__(self, rows):
        rows = torch.as_tensor(rows)
        return {name: column[rows] for name, column in self.table.items()}


class Stacked(Columns):
    """The same with all columns in one matrix, split when they are used."""

    def __init__(self, table):
        super().__init__(table)
        self.matrix = torch.stack([column.double() for column in table.values()], 1)

    def __getitem__(self, rows):
        return self.matrix[torch.as_tensor(rows)]


def split(matrix):
    names = [*CATEGORICAL, *NUMERIC, "sales"]
    return {name: column.long() if name in CATEGORICAL else column.float() for name, column in zip(names, matrix.unbind(1))}


class Net(nn.Module):
    def __init__(self, hidden, dropout=0.1):
        super().__init__()
        self.embeddings = nn.ModuleDict({name: nn.Embedding(size, min(16, (size + 1) // 2)) for name, size in CATEGORICAL.items()})
        width = sum(embedding.embedding_dim for embedding in self.embeddings.values()) + len(NUMERIC)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, batch):
        parts = [embedding(batch[name]) for name, embedding in self.embeddings.items()]
        parts += [batch[name].unsqueeze(1) for name in NUMERIC]
        return self.mlp(torch.cat(parts, 1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--stacked", action="store_true", help="keep the columns in one matrix")
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--print-every", type=int, default=200)
    args = parser.parse_args()
    torch.manual_seed(0)

    table = make_table(args.rows)
    data = Stacked(table) if args.stacked else Columns(table)
    sampler = BatchSampler(RandomSampler(data), args.batch_size, drop_last=True)
    loader = DataLoader(
        data,
        sampler=sampler,
        batch_size=None,
        num_workers=args.num_workers,
        prefetch_factor=args.prefetch_factor if args.num_workers else None,
    )
    net = Net(args.hidden)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    meter = Meter(100, args.batch_size)
    for step, batch in enumerate(loader, 1):
        batch = split(batch) if args.stacked else batch
        loss = nn.functional.mse_loss(net(batch), batch["sales"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.print_every == 0:
            print(f"{step}/{len(loader)}  rmsle {loss.item() ** 0.5:.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
