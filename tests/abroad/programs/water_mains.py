# SPDX-License-Identifier: Apache-2.0
"""PyTorch Geometric: how corroded the pipes of a city's water network are, from age, material, soil and pressure. Few pipes were dug up,
and neighbours share soil and pressure, so the network sees the whole city in each step and its loss is that of the inspected pipes."""

import argparse
import copy
import os
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv
from torch_geometric.utils import dropout_edge

LAYERS_OF_WALL = 4


def make_city(pipes, columns, inspected, generator):
    """Pipes of streets that cross: each meets the next of its street and some of others. Corrosion is that of the soil around."""
    street = torch.arange(pipes - 1)
    crossing = torch.randint(0, pipes, (2, 2 * pipes), generator=generator)
    near = (crossing[0] - crossing[1]).abs() < pipes // 8
    meets = torch.cat([torch.stack([street, street + 1]), crossing[:, near & (crossing[0] != crossing[1])]], 1)
    about = torch.rand(pipes, columns, generator=generator)
    soil, count = about[:, :4].mean(1), torch.ones(pipes)
    for a, b in (meets, meets.flip(0)):
        soil = soil.index_add(0, a, about[b, :4].mean(1))
        count = count.index_add(0, a, torch.ones(len(a)))
    corrosion = (soil / count)[:, None] * torch.linspace(1.4, 0.4, LAYERS_OF_WALL) + about[:, 4:5] ** 2
    corrosion = corrosion + 0.05 * torch.randn(corrosion.shape, generator=generator)
    pressure = torch.rand(meets.shape[1], 2, generator=generator)
    dug_up = torch.randperm(pipes, generator=generator)[: int(inspected * pipes)]
    for_training, for_validation = dug_up[: 4 * len(dug_up) // 5], dug_up[4 * len(dug_up) // 5 :]
    return Data(
        x=about, y=corrosion, edge_index=torch.cat([meets, meets.flip(0)], 1), edge_attr=torch.cat([pressure, -pressure]),
        for_training=for_training, for_validation=for_validation,
    )  # fmt: skip


class CityNet(nn.Module):
    def __init__(self, columns, hidden, heads, layers, dropout):
        super().__init__()
        self.about = nn.Sequential(nn.Linear(columns, hidden), nn.GELU(), nn.Linear(hidden, hidden))
        self.convs = nn.ModuleList([GATv2Conv(hidden, hidden // heads, heads, edge_dim=2) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers)])
        self.head = nn.Linear(hidden * (layers + 1), LAYERS_OF_WALL)
        self.dropout = dropout

    def forward(self, x, edges, pressures):
        seen = [self.about(x)]
        for conv, norm in zip(self.convs, self.norms):
            y = F.gelu(conv(norm(seen[-1]), edges, pressures))
            seen.append(seen[-1] + F.dropout(y, self.dropout, self.training))
        return self.head(torch.cat(seen, 1))


class Best:
    """The weights that did best on the held-out pipes; kept in memory, and in a file."""

    def __init__(self, path):
        self.path, self.error, self.weights = path, float("inf"), None

    def offer(self, error, model):
        if error >= self.error:
            return ""
        self.error, self.weights = error, copy.deepcopy(model.state_dict())
        if self.path:
            torch.save(self.weights, self.path)
        return "*"


@torch.no_grad()
def validate(model, data):
    model.eval()
    rows = data.for_validation
    error = F.l1_loss(model(data.x, data.edge_index, data.edge_attr)[rows], data.y[rows]).item()
    model.train()
    return error


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipes", type=int, default=3000)
    parser.add_argument("--columns", type=int, default=32, help="of age, material, soil, traffic and repairs")
    parser.add_argument("--inspected", type=float, default=0.15)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--edge-dropout", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=130)
    parser.add_argument("--optimizer", choices=["loop", "foreach", "fused"], default="foreach")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as PyTorch takes")
    parser.add_argument("--validate-every", type=int, default=40)
    parser.add_argument("--print-every", type=int, default=20)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(77)

    data = make_city(args.pipes, args.columns, args.inspected, torch.Generator().manual_seed(77))
    model = CityNet(args.columns, args.hidden, args.heads, args.layers, 0.2)
    flags = {"foreach": False} if args.optimizer == "loop" else {args.optimizer: True}
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=1e-3, **flags)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    meter = Meter(15, args.pipes)
    with tempfile.TemporaryDirectory(dir=os.environ.get("ABROAD_DISK")) as folder:
        best = Best(None if args.no_save else Path(folder) / "best.pt")
        for epoch in range(1, args.epochs + 1):
            edges, kept = dropout_edge(data.edge_index, args.edge_dropout)
            corrosion = model(data.x, edges, data.edge_attr[kept])
            loss = F.smooth_l1_loss(corrosion[data.for_training], data.y[data.for_training])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if epoch % args.print_every == 0:
                print(f"epoch {epoch:4d} loss {loss.item():.4f}")
            if epoch % args.validate_every == 0:
                error = validate(model, data)
                print(f"epoch {epoch:4d} held-out pipes {error:.4f} {best.offer(error, model)}")
            meter.step()
        meter.print()


if __name__ == "__main__":
    main()
