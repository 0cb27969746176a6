# SPDX-License-Identifier: Apache-2.0
"""PyTorch Geometric: classification of molecules-like graphs; a pre-computation of distances runs in the dataset's transform."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool


class Distances:
    """All pairs' shortest paths, by repeated products: what some positional encodings need."""

    def __call__(self, data):
        nodes = data.num_nodes
        adjacent = torch.zeros(nodes, nodes)
        adjacent[data.edge_index[0], data.edge_index[1]] = 1
        reached, walk = torch.eye(nodes), torch.eye(nodes)
        for _ in range(12):
            walk = (walk @ adjacent).clamp_(max=1)
            reached += walk
        data.x = torch.cat([data.x, reached.sum(1, keepdim=True)], 1)
        return data


class Molecules(torch.utils.data.Dataset):
    def __init__(self, count, once):
        generator = torch.Generator().manual_seed(0)
        self.transform, self.once = Distances(), once
        self.graphs = [Data(x=torch.rand(60, 15, generator=generator), edge_index=torch.randint(0, 60, (2, 240), generator=generator), y=torch.tensor([number % 2])) for number in range(count)]
        if once:
            self.graphs = [self.transform(graph) for graph in self.graphs]

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, index):
        return self.graphs[index] if self.once else self.transform(self.graphs[index].clone())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = GCNConv(16, 32), GCNConv(32, 32), nn.Linear(32, 2)

    def forward(self, data):
        x = F.relu(self.first(data.x, data.edge_index))
        return self.head(global_mean_pool(F.relu(self.second(x, data.edge_index)), data.batch))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--pre-transform", action="store_true")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--graphs", type=int, default=2560)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Molecules(args.graphs, args.pre_transform), args.batch_size, shuffle=True, num_workers=args.num_workers, persistent_workers=args.num_workers > 0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    meter = Meter(len(loader), args.batch_size)
    for epoch in range(args.epochs):
        for data in loader:
            loss = F.cross_entropy(model(data), data.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.step()
        print(f"Epoch: {epoch:03d}, Loss: {loss.item():.4f}")
    meter.print()


if __name__ == "__main__":
    main()
