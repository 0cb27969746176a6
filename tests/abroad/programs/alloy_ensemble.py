# SPDX-License-Identifier: Apache-2.0
"""A deep ensemble that predicts the hardness of alloys with its uncertainty: each member is a small network of two outputs, and each
step is over the whole table of measurements."""

import argparse

import torch
from meter import Meter
from torch import nn


class Member(nn.Module):
    def __init__(self, columns, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(columns, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x).unbind(-1)


class StackedLinear(nn.Module):
    def __init__(self, members, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(members, inputs, outputs) * inputs**-0.5)
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))

    def forward(self, x):
        return torch.baddbmm(self.bias, x, self.weight)


class StackedMembers(nn.Module):
    """All members at once: their weights have one dimension more."""

    def __init__(self, members, columns, width):
        super().__init__()
        self.members = members
        sizes = [columns, width, width, width]
        self.hidden = nn.ModuleList([StackedLinear(members, a, b) for a, b in zip(sizes, sizes[1:])])
        self.out = StackedLinear(members, width, 2)

    def forward(self, x):
        x = x.expand(self.members, -1, -1)
        for layer in self.hidden:
            x = nn.functional.silu(layer(x))
        return self.out(x).unbind(-1)


def gaussian_nll(mean, spread, target):
    variance = nn.functional.softplus(spread) + 1e-6
    return 0.5 * (variance.log() + (target - mean) ** 2 / variance).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--columns", type=int, default=48)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=350)
    parser.add_argument("--stacked", action="store_true")
    parser.add_argument("--fused", action="store_true", help="the optimizer's fused kernels")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--print-every", type=int, default=100)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32

    table = torch.randn(args.rows, args.columns, device="cuda")
    hardness = torch.randn(args.rows, device="cuda")
    if args.stacked:
        models = [StackedMembers(args.members, args.columns, args.width).cuda()]
    else:
        models = [Member(args.columns, args.width).cuda() for _ in range(args.members)]
    optimizers = [torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-4, fused=args.fused or None) for model in models]
    meter = Meter(20, args.rows * args.members, torch.cuda.synchronize)
    for epoch in range(args.epochs):
        total = torch.zeros((), device="cuda")
        for model, optimizer in zip(models, optimizers):
            mean, spread = model(table)
            loss = gaussian_nll(mean, spread, hardness)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        if epoch % args.print_every == 0:
            print(f"epoch {epoch:4d} mean NLL {total.item() / len(models):.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
