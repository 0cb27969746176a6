# SPDX-License-Identifier: Apache-2.0
"""Flow around a cylinder on a mesh: a graph network that predicts how the velocity of each node changes in the next time step."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


def mlp(inputs, hidden, outputs, norm=True):
    layers = [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)]
    return nn.Sequential(*layers, nn.LayerNorm(outputs)) if norm else nn.Sequential(*layers)


class GraphStep(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.edge, self.node = mlp(3 * dim, dim, dim), mlp(2 * dim, dim, dim)

    def forward(self, nodes, edges, senders, receivers):
        messages = self.edge(torch.cat([edges, nodes.index_select(0, senders), nodes.index_select(0, receivers)], 1))
        gathered = torch.zeros_like(nodes).index_add(0, receivers, messages)
        return nodes + self.node(torch.cat([nodes, gathered], 1)), edges + messages


class MeshGraphNet(nn.Module):
    def __init__(self, dim, steps, node_features=6, edge_features=3):
        super().__init__()
        self.encode_nodes, self.encode_edges = mlp(node_features, dim, dim), mlp(edge_features, dim, dim)
        self.steps = nn.ModuleList([GraphStep(dim) for _ in range(steps)])
        self.decode = mlp(dim, dim, 2, norm=False)

    def forward(self, nodes, edges, senders, receivers):
        nodes, edges = self.encode_nodes(nodes), self.encode_edges(edges)
        for step in self.steps:
            nodes, edges = step(nodes, edges, senders, receivers)
        return self.decode(nodes)


def triangulated(side):
    """Both directions of the edges of a square grid, each cell of which is cut once."""
    index = torch.arange(side * side).view(side, side)
    pairs = [(index[:, :-1], index[:, 1:]), (index[:-1], index[1:]), (index[:-1, :-1], index[1:, 1:])]
    senders, receivers = (torch.cat([pair[end].flatten() for pair in pairs]) for end in (0, 1))
    return torch.cat([senders, receivers]), torch.cat([receivers, senders])


class Trainer:
    def __init__(self, args):
        self.args = args
        senders, receivers = triangulated(args.side)
        shift = torch.arange(args.meshes).repeat_interleave(len(senders)) * args.side**2
        self.senders, self.receivers = ((end.repeat(args.meshes) + shift).cuda() for end in (senders, receivers))
        self.edges = torch.randn(len(self.senders), 3, device="cuda")
        self.states = torch.randn(args.trajectory, args.meshes * args.side**2, 6, device="cuda")
        self.model = MeshGraphNet(args.hidden, args.message_passing_steps).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=args.fused or None)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9999)

    def training_step(self, moment):
        state, following = self.states[moment], self.states[moment + 1]
        noise = torch.zeros_like(state)
        noise[:, :2].normal_(std=0.02)
        change = following[:, :2] - state[:, :2] - noise[:, :2]
        return F.mse_loss(self.model(state + noise, self.edges, self.senders, self.receivers), change)

    def fit(self):
        meter = Meter(20, self.args.meshes, torch.cuda.synchronize)
        for step in range(self.args.steps):
            with torch.autograd.set_detect_anomaly(self.args.detect_anomaly):
                loss = self.training_step(step % (self.args.trajectory - 1))
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            if step % self.args.log_every == 0:
                print(f"step {step}: loss {loss.item():.5f}, lr {self.scheduler.get_last_lr()[0]:.2e}")
            meter.step()
        meter.print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--meshes", type=int, default=2)
    parser.add_argument("--side", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--message-passing-steps", type=int, default=10)
    parser.add_argument("--trajectory", type=int, default=100)
    parser.add_argument("--steps", type=int, default=110)
    parser.add_argument("--detect-anomaly", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--fused", action="store_true", help="the fused Adam")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--log-every", type=int, default=50)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    Trainer(arguments).fit()
