# SPDX-License-Identifier: Apache-2.0
"""MosaicML Streaming: MDS shards on the local disk. An annotation service is asked for each sample."""

import argparse
import time

import no_vision_kernels  # noqa: F401
import torch
import torch.nn.functional as F
from meter import Meter
from streaming import StreamingDataLoader, StreamingDataset
from torch import nn


class Annotated(StreamingDataset):
    def __init__(self, ask_ms, **options):
        super().__init__(**options)
        self.ask_ms = ask_ms

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        time.sleep(self.ask_ms / 1e3)
        return torch.from_numpy(sample["x"].copy()), sample["y"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local", required=True)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--ask-ms", type=float, default=3)
    parser.add_argument("--steps", type=int, default=160)
    args = parser.parse_args()
    torch.manual_seed(0)
    dataset = Annotated(args.ask_ms, local=args.local, batch_size=args.batch_size, shuffle=True)
    loader = StreamingDataLoader(dataset, batch_size=args.batch_size, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor)
    model = nn.Sequential(nn.Linear(1024, 512), nn.GELU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    meter = Meter(20, args.batch_size)
    for step, (x, y) in zip(range(args.steps), loader):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 40 == 0:
            print(f"batch={step} loss={loss.item():.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
