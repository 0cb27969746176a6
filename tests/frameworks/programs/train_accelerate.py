# SPDX-License-Identifier: Apache-2.0
"""Accelerate: the script's own loop over a prepared DataLoader, timed around each next() of the DataLoader below it."""

import sys

from accelerate import Accelerator
from common import Waits, finish, work
from slow_data import BATCH, Slow, model, time_loaders, torch

accelerator = Accelerator(cpu=True)
network = model()
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(Slow(), batch_size=BATCH, num_workers=int(sys.argv[1]))  # loader
network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
waits, steps = Waits(), 0
time_loaders(waits)
for epoch in range(2):
    for x, y in loader:
        work(3)
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.mse_loss(network(x), y))
        optimizer.step()
        steps += 1
finish(waits, steps)
