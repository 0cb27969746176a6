# SPDX-License-Identifier: Apache-2.0
"""torchdata's StatefulDataLoader in the script's own loop."""

import sys

from common import Waits, finish, work
from slow_data import BATCH, Slow, model, torch
from torchdata.stateful_dataloader import StatefulDataLoader

loader = StatefulDataLoader(Slow(), batch_size=BATCH, num_workers=int(sys.argv[1]))  # loader
network = model()
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
waits, steps = Waits(), 0
for epoch in range(2):
    for x, y in waits.around(loader):
        work(3)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(network(x), y).backward()
        optimizer.step()
        steps += 1
finish(waits, steps)
