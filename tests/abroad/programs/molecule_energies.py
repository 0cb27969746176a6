# SPDX-License-Identifier: Apache-2.0
"""Energies of small molecules: continuous-filter convolutions over all pairs of atoms (as SchNet has them).
A table at the end says what each kind of layer cost."""

import argparse
import time
from collections import defaultdict

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class ShiftedSoftplus(nn.Module):
    def forward(self, x):
        return F.softplus(x) - 0.6931


class Interaction(nn.Module):
    def __init__(self, dim, gaussians):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(gaussians, dim), ShiftedSoftplus(), nn.Linear(dim, dim))
        self.before = nn.Linear(dim, dim, bias=False)
        self.after = nn.Sequential(nn.Linear(dim, dim), ShiftedSoftplus(), nn.Linear(dim, dim))

    def forward(self, atoms, expanded, cutoff):
        filters = self.filter(expanded) * cutoff
        return atoms + self.after((self.before(atoms)[:, None] * filters).sum(2))


class SchNet(nn.Module):
    def __init__(self, dim, blocks, gaussians, radius):
        super().__init__()
        self.elements = nn.Embedding(100, dim, padding_idx=0)
        self.blocks = nn.ModuleList([Interaction(dim, gaussians) for _ in range(blocks)])
        self.readout = nn.Sequential(nn.Linear(dim, dim // 2), ShiftedSoftplus(), nn.Linear(dim // 2, 1))
        self.register_buffer("centers", torch.linspace(0, radius, gaussians))
        self.radius = radius

    def forward(self, numbers, positions):
        distances = (positions[:, :, None] - positions[:, None]).square().sum(3).add(1e-9).sqrt()
        expanded = torch.exp(-10 * (distances[..., None] - self.centers) ** 2)
        cutoff = (0.5 * (torch.cos(distances * torch.pi / self.radius) + 1) * (distances < self.radius))[..., None]
        atoms = self.elements(numbers)
        for block in self.blocks:
            atoms = block(atoms, expanded, cutoff)
        return (self.readout(atoms).squeeze(2) * (numbers > 0)).sum(1)


class LayerTimer:
    """Seconds in forward and backward by class of layer."""

    def __init__(self, model):
        self.seconds, self.began = defaultdict(float), {}
        for module in model.modules():
            if not list(module.children()):
                module.register_forward_pre_hook(self.start)
                module.register_forward_hook(self.stop)
                module.register_full_backward_pre_hook(self.start)
                module.register_full_backward_hook(self.stop)

    def start(self, module, *_):
        torch.cuda.synchronize()
        self.began[module] = time.perf_counter()

    def stop(self, module, *_):
        torch.cuda.synchronize()
        self.seconds[type(module).__name__] += time.perf_counter() - self.began[module]

    def table(self):
        return "\n".join(f"{name:20} {seconds:8.3f} s" for name, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--atoms", type=int, default=24)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--interactions", type=int, default=6)
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--layer-times", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--fused", action="store_true", help="the fused Adam")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32

    numbers = torch.randint(1, 10, (2048, args.atoms), device="cuda")
    positions = torch.randn(2048, args.atoms, 3, device="cuda")
    energies = torch.randn(2048, device="cuda")
    model = SchNet(args.dim, args.interactions, 50, 5.0).cuda()
    timer = LayerTimer(model) if args.layer_times else None
    optimizer = torch.optim.Adam(model.parameters(), 5e-4, fused=args.fused or None)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step in range(args.steps):
        rows = slice(step * args.batch_size % 2016, step * args.batch_size % 2016 + args.batch_size)
        loss = F.mse_loss(model(numbers[rows], positions[rows]), energies[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"step {step} MSE {loss.item():.4f}")
        meter.step()
    meter.print()
    if timer:
        print(timer.table())


if __name__ == "__main__":
    main()
