# SPDX-License-Identifier: Apache-2.0
"""PyTorch Geometric: batches of nodes of a random graph from NodeLoader, the class that NeighborLoader is; its sampler is
one of our own, because NeighborSampler needs pyg-lib, which PyPI does not have."""

import sys
import time

from common import BATCH, SAMPLE_MS, SAMPLES, Waits, finish, work
from slow_data import torch
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, SamplerOutput

torch.manual_seed(0)
graph = Data(x=torch.randn(SAMPLES, 4), edge_index=torch.randint(0, SAMPLES, (2, 800)), y=torch.randint(0, 2, (SAMPLES,)))


class Slowly(BaseSampler):
    edge_permutation = None

    def sample_from_edges(self, index, **_):
        raise NotImplementedError

    def sample_from_nodes(self, index, **_):
        time.sleep(BATCH * SAMPLE_MS / 1e3)
        none = torch.empty(0, dtype=torch.long)
        return SamplerOutput(node=index.node, row=none, col=none, edge=none, metadata=(index.input_id, index.time))


loader = NodeLoader(graph, Slowly(), batch_size=BATCH, num_workers=int(sys.argv[1]))  # loader
network = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
waits, steps = Waits(), 0
for epoch in range(2):
    for batch in waits.around(loader):
        work(3)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(batch.x), batch.y).backward()
        optimizer.step()
        steps += 1
finish(waits, steps)
