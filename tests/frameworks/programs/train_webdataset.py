# SPDX-License-Identifier: Apache-2.0
"""WebDataset: shards on the disk, decoded and batched by a pipeline behind WebLoader; timed around each next() of the
DataLoader below it."""

import sys
import tempfile
import time
from pathlib import Path

import webdataset
from common import BATCH, SAMPLE_MS, SAMPLES, Waits, finish, work
from slow_data import model, time_loaders, torch

SHARDS = 4
folder = Path(tempfile.mkdtemp())
for shard in range(SHARDS):
    with webdataset.TarWriter(str(folder / f"{shard}.tar")) as writer:
        for index in range(shard, SAMPLES, SHARDS):
            writer.write({"__key__": f"{index:04}", "x.cls": index, "y.cls": 1})


def decode(sample):
    time.sleep(SAMPLE_MS / 1e3)
    return torch.full((4,), float(sample[0])), torch.tensor([float(sample[1])])


urls = str(folder / f"{{0..{SHARDS - 1}}}.tar")
dataset = webdataset.WebDataset(urls, shardshuffle=False).decode().to_tuple("x.cls", "y.cls").map(decode).batched(BATCH)
loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=int(sys.argv[1]))  # loader
network = model()
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
waits, steps = Waits(), 0
time_loaders(waits)
for epoch in range(2):
    for x, y in loader:
        work(3)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(network(x), y).backward()
        optimizer.step()
        steps += 1
finish(waits, steps)
