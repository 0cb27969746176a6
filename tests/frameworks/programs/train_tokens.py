# SPDX-License-Identifier: Apache-2.0
"""No loader at all: random crops of a memory-mapped file of tokens, as nanoGPT trains."""

import tempfile

import numpy
from common import Waits, finish
from slow_data import torch

TOKENS, BLOCK, BATCH = 4_000_000, 256, 16
path = tempfile.mktemp()
numpy.arange(TOKENS, dtype=numpy.uint16).tofile(path)
torch.manual_seed(0)
network = torch.nn.Embedding(65536, 8)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)


def batch():
    tokens = numpy.memmap(path, dtype=numpy.uint16, mode="r")  # anew each time, as nanoGPT does
    at = torch.randint(TOKENS - BLOCK - 1, (BATCH,))
    return torch.stack([torch.from_numpy(tokens[i : i + BLOCK].astype(numpy.int64)) for i in at])


waits = Waits()
batch = waits.timed(batch)
for step in range(40):
    x = batch()
    optimizer.zero_grad()
    network(x).square().mean().backward()
    optimizer.step()
finish(waits, 40)
