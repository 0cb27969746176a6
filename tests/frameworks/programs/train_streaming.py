# SPDX-License-Identifier: Apache-2.0
"""MosaicML Streaming: MDS shards on the disk behind StreamingDataLoader, timed around each next() of the
DataLoader that it is."""

import sys
import tempfile
import time

import no_vision_kernels  # noqa: F401
from common import BATCH, SAMPLE_MS, SAMPLES, Waits, finish, work
from slow_data import model, time_loaders, torch
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset

folder = tempfile.mkdtemp()
with MDSWriter(out=folder, columns={"index": "int"}, size_limit=1 << 12) as writer:
    for index in range(SAMPLES):
        writer.write({"index": index})


class Slow(StreamingDataset):
    def __getitem__(self, at):
        index = super().__getitem__(at)["index"]
        time.sleep(SAMPLE_MS / 1e3)
        return torch.full((4,), float(index)), torch.tensor([1.0])


dataset = Slow(local=folder, batch_size=BATCH, shuffle=False)
loader = StreamingDataLoader(dataset, batch_size=BATCH, num_workers=int(sys.argv[1]))  # loader
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
