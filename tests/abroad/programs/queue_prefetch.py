# SPDX-License-Identifier: Apache-2.0
"""No DataLoader: reader threads put batches into a queue, training takes them out. The source is a message broker with a delay."""

import argparse
import queue
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--readers", type=int, default=1)
parser.add_argument("--queue-size", type=int, default=8)
parser.add_argument("--broker-ms", type=float, default=40)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--steps", type=int, default=200)
args = parser.parse_args()
torch.manual_seed(0)
batches, numbers, lock = queue.Queue(args.queue_size), iter(range(args.steps)), threading.Lock()


def read():
    while True:
        with lock:
            number = next(numbers, None)
        if number is None:
            return
        time.sleep(args.broker_ms / 1e3)
        features = np.random.default_rng(number).random((args.batch_size, 256), dtype=np.float32)
        batches.put((torch.from_numpy(features), torch.from_numpy(features.sum(1) > 128).long()))


for _ in range(args.readers):
    threading.Thread(target=read, daemon=True).start()
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
meter = Meter(20, args.batch_size)
for step in range(args.steps):
    x, y = batches.get()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f} queued {batches.qsize()}")
    meter.step()
meter.print()
