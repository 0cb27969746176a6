# SPDX-License-Identifier: Apache-2.0
"""A notebook's tabular baseline: a pandas frame, and a Dataset that takes a row of it by .iloc."""

import argparse

import pandas as pd
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class TabularDataset(Dataset):
    def __init__(self, df, as_tensors):
        self.df, self.columns = df, [column for column in df.columns if column.startswith("f")]
        self.tensors = None
        if as_tensors:
            self.tensors = torch.tensor(df[self.columns].values, dtype=torch.float32), torch.tensor(df["city"].values), torch.tensor(df["target"].values, dtype=torch.float32)

    def __len__(self):
        return len(self.df)

    def __getitem__(self, idx):
        if self.tensors:
            return tuple(column[idx] for column in self.tensors)
        row = self.df.iloc[idx]
        return torch.tensor(row[self.columns].values.astype("float32")), torch.tensor(int(row["city"])), torch.tensor(float(row["target"]))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.city, self.net = nn.Embedding(50, 16), nn.Sequential(nn.Linear(56, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 1))

    def forward(self, x, city):
        return self.net(torch.cat([x, self.city(city)], 1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--csv", required=True)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--as-tensors", action="store_true", help="convert the frame once")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=140)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TabularDataset(pd.read_csv(args.csv), args.as_tensors), args.batch_size, shuffle=True, num_workers=args.num_workers)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    meter = Meter(20, args.batch_size)
    for step, (x, city, y) in zip(range(args.steps), loader):
        loss = F.binary_cross_entropy_with_logits(model(x, city), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"{step} {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
