# SPDX-License-Identifier: Apache-2.0
"""An ordinary training: pinned DataLoader, non_blocking copies, an MLP, AdamW, a loss read every few steps.

python mlp.py STEPS [ddp]     ddp: as DistributedDataParallel of one rank

GWSIM_PHASES: where to write when each step began and ended (cuda/workloads/phase_log.h)
"""

import json
import os
import sys
import threading
import time

import torch
from torch import distributed, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

BATCH = 256


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def main():
    steps, parallel = int(sys.argv[1]), "ddp" in sys.argv
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(steps * BATCH, 256), torch.randint(0, 10, (steps * BATCH,)))
    model = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
    if parallel:
        distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    phases, thread = [], threading.get_native_id()

    def log(phase, step, begin, end):
        phases.append({"phase": phase, "tid": thread, "step": step, "begin": begin, "end": end})

    batches = iter(DataLoader(data, batch_size=BATCH, num_workers=1, pin_memory=True))
    begin = now_ns()
    for step in range(steps):
        asked = now_ns()
        x, y = next(batches)
        log("data_wait", step, asked, now_ns())
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        end = now_ns()
        log("step", step, begin, end)
        begin = end
        if step % 5 == 0:
            print(step, loss.item())
    torch.cuda.synchronize()
    if parallel:
        distributed.destroy_process_group()
    if path := os.environ.get("GWSIM_PHASES"):
        with open(path, "w") as file:
            file.writelines(json.dumps(phase) + "\n" for phase in phases)


if __name__ == "__main__":
    main()
