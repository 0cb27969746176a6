# SPDX-License-Identifier: Apache-2.0
"""No loader at all: a generator of the script's own, which reads and sleeps."""

import time

from common import BATCH, SAMPLE_MS, Waits, finish, work
from slow_data import model, torch

network = model()
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)


def batches(count):
    for index in range(count):
        time.sleep(BATCH * SAMPLE_MS / 1e3)
        yield torch.full((BATCH, 4), float(index)), torch.ones(BATCH, 1)


waits = Waits()
for x, y in waits.around(batches(40)):
    work(3)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(network(x), y).backward()
    optimizer.step()
finish(waits, 40)
