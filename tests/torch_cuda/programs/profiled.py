# SPDX-License-Identifier: Apache-2.0
"""Trains under torch.profiler and exports what it saw.

python profiled.py TRACE.json
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function

STEPS = 4
PAUSE_S = 0.5  # in all longer than the quiet after which gpuwatch takes a profiler for gone


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    images, labels = torch.randn(32, 64).pin_memory(), torch.randint(0, 10, (32,)).pin_memory()

    def step():
        with record_function("step"):
            x, y = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    step()  # libraries are set up and memory is there
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            step()
            time.sleep(PAUSE_S)
        torch.cuda.synchronize()
    profiler.export_chrome_trace(sys.argv[1])


if __name__ == "__main__":
    main()
