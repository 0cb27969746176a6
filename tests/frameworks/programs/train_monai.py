# SPDX-License-Identifier: Apache-2.0
"""MONAI: a Dataset with a transform behind monai.data.DataLoader, or ThreadDataLoader with "threads" as second word."""

import sys
import time

from common import BATCH, SAMPLE_MS, SAMPLES, Waits, finish, work
from monai.data import DataLoader, Dataset, ThreadDataLoader
from slow_data import model, torch


def transform(index):
    time.sleep(SAMPLE_MS / 1e3)
    return {"x": torch.full((4,), float(index)), "y": torch.tensor([1.0])}


dataset, workers = Dataset(list(range(SAMPLES)), transform), int(sys.argv[1])
if sys.argv[2:] == ["threads"]:
    loader = ThreadDataLoader(dataset, batch_size=BATCH, num_workers=workers, buffer_size=2)
else:
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=workers)  # loader
network = model()
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
waits, steps = Waits(), 0
for epoch in range(2):
    for batch in waits.around(loader):
        work(3)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(network(batch["x"]), batch["y"]).backward()
        optimizer.step()
        steps += 1
finish(waits, steps)
