# SPDX-License-Identifier: Apache-2.0
"""Next item of a shop's visitor (GRU4Rec): sessions lie in one JSON-lines file, and each sample seeks to its line and parses it."""

import argparse
import json
from datetime import datetime
from pathlib import Path

import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

KINDS = {"view": 0, "cart": 1, "purchase": 2}


class Sessions(Dataset):
    """The last 20 events of a session: items, kinds of event, seconds since the previous event, and the item to predict."""

    def __init__(self, path, length=20, parse_once=False):
        self.path, self.length, self.file = path, length, None
        self.offsets, position = [], 0
        with open(path, "rb") as file:
            for line in file:
                self.offsets.append(position)
                position += len(line)
        self.parsed = (
            [self.parse(index) for index in range(len(self.offsets))]
            if parse_once
            else None
        )
        self.file = None  # do not share it with workers

    def __len__(self):
        return len(self.offsets)

    def parse(self, index):
        if self.file is None:
            self.file = open(self.path, "rb")
        self.file.seek(self.offsets[index])
        events = json.loads(self.file.readline())["events"][-self.length - 1 :]
        items = [int(event["item"]["sku"].removeprefix("sku-")) + 1 for event in events]
        kinds = [KINDS[event["type"]] for event in events]
        times = [datetime.fromisoformat(event["at"]).timestamp() for event in events]
        gaps = [0.0, *(min(abs(b - a), 600) / 600 for a, b in zip(times, times[1:]))]
        missing = self.length + 1 - len(events)
        return (
            torch.tensor([0] * missing + items[:-1]), torch.tensor([0] * missing + kinds[:-1]),
            torch.tensor([0.0] * missing + gaps[:-1]), torch.tensor(items[-1]),
        )  # fmt: skip

    def __getitem__(self, index):
        return self.parsed[index] if self.parsed else self.parse(index)


class NextItem(nn.Module):
    def __init__(self, items=5001, width=48):
        super().__init__()
        self.items, self.kinds = (
            nn.Embedding(items, width, padding_idx=0),
            nn.Embedding(3, 8),
        )
        self.gru, self.out = (
            nn.GRU(width + 9, width, batch_first=True),
            nn.Linear(width, items),
        )

    def forward(self, items, kinds, gaps):
        x = torch.cat([self.items(items), self.kinds(kinds), gaps.unsqueeze(-1)], -1)
        return self.out(self.gru(x)[0][:, -1])


parser = argparse.ArgumentParser()
parser.add_argument("--sessions", type=Path, required=True)
parser.add_argument(
    "--parse-once",
    action="store_true",
    help="parse the file before training, keep the tensors",
)
parser.add_argument("--num-workers", type=int, default=0)
parser.add_argument("--prefetch-factor", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--log-every", type=int, default=10)
parser.add_argument("--steps", type=int, default=500)

if __name__ == "__main__":
    args = parser.parse_args()
    torch.manual_seed(0)
    options = (
        {"prefetch_factor": args.prefetch_factor, "persistent_workers": True}
        if args.num_workers
        else {}
    )
    loader = DataLoader(
        Sessions(args.sessions, parse_once=args.parse_once),
        args.batch_size,
        shuffle=True,
        num_workers=args.num_workers,
        drop_last=True,
        **options,
    )
    net = NextItem()
    optimizer = torch.optim.Adagrad(net.parameters(), 0.05)
    meter, step = Meter(20, args.batch_size), 0
    while step < args.steps:
        for items, kinds, gaps, target in loader:
            loss = nn.functional.cross_entropy(net(items, kinds, gaps), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.log_every == 0:
                print(f"step {step} loss {loss.item():.3f}")
            meter.step()
            step += 1
            if step == args.steps:
                break
    meter.print()
