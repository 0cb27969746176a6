# SPDX-License-Identifier: Apache-2.0
"""Ray Data: iter_torch_batches over a mapped range, in the script's own loop."""

import time

import ray
from common import BATCH, SAMPLE_MS, SAMPLES, Waits, finish, work
from slow_data import model, torch

ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
ray.data.DataContext.get_current().enable_progress_bars = False


def slowly(batch):
    time.sleep(len(batch["id"]) * SAMPLE_MS / 1e3)
    return batch


dataset = ray.data.range(SAMPLES, override_num_blocks=SAMPLES // BATCH).map_batches(slowly, batch_size=BATCH)
network = model()
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
waits, steps = Waits(), 0
for epoch in range(2):
    for batch in waits.around(dataset.iter_torch_batches(batch_size=BATCH)):
        work(3)
        optimizer.zero_grad()
        x = batch["id"].float().unsqueeze(1).expand(-1, 4)
        torch.nn.functional.mse_loss(network(x), torch.ones(len(x), 1)).backward()
        optimizer.step()
        steps += 1
finish(waits, steps)
