# SPDX-License-Identifier: Apache-2.0
"""Cells of one day and their descendants of the next: a latent space in which optimal transport between the days is cheap.
The plan comes from Sinkhorn's iterations, the gradient by the envelope theorem."""

import argparse
import math

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class AutoEncoder(nn.Module):
    def __init__(self, genes, hidden, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(genes, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, genes))

    def forward(self, counts):
        z = self.encoder(torch.log1p(counts))
        return z, self.decoder(z)


class Sinkhorn:
    """Entropic plan between two uniform distributions. `errors` has the marginal's errors of the last call."""

    def __init__(self, epsilon, iterations, tolerance, check_every):
        self.epsilon, self.iterations, self.tolerance, self.check_every = epsilon, iterations, tolerance, check_every
        self.errors = []

    @torch.no_grad()
    def __call__(self, cost):
        kernel = torch.exp(-cost / (self.epsilon * cost.mean()))
        a, b = cost.new_full((cost.shape[0], 1), 1 / cost.shape[0]), cost.new_full((cost.shape[1], 1), 1 / cost.shape[1])
        v, self.errors = torch.ones_like(b), []
        for iteration in range(self.iterations):
            u = a / (kernel @ v)
            back = kernel.T @ u
            if iteration % self.check_every == 0:
                error = (v * back - b).abs().sum().item()
                self.errors.append(error)
                if error < self.tolerance:
                    break
            v = b / back
        return u * kernel * v.T


def warmup_cosine(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def get_args():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--cells", type=int, default=4096, help="of each day in a batch")
    parser.add_argument("--genes", type=int, default=2000)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--latent", type=int, default=50)
    parser.add_argument("--epsilon", type=float, default=0.05)
    parser.add_argument("--sinkhorn-iterations", type=int, default=200)
    parser.add_argument("--tolerance", type=float, default=0.0, help="0: all iterations")
    parser.add_argument("--check-every", type=int, default=1, help="how often the marginal is looked at")
    parser.add_argument("--transport-weight", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="tf32")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--log-every", type=int, default=25)
    return parser.parse_args()


def main():
    args = get_args()
    torch.manual_seed(14)
    torch.set_float32_matmul_precision("highest" if args.precision == "fp32" else "high")

    days = [torch.rand(4 * args.cells, args.genes, device="cuda").mul_(most).floor_() for most in (4, 5)]
    model = AutoEncoder(args.genes, args.hidden, args.latent).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=1e-2, fused=args.fused or None)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warmup_cosine(step, 20, args.steps))
    sinkhorn = Sinkhorn(args.epsilon, args.sinkhorn_iterations, args.tolerance, args.check_every)
    meter = Meter(15, args.cells, torch.cuda.synchronize)
    for step in range(args.steps):
        at = step * args.cells % (4 * args.cells)
        early, late = (day[at : at + args.cells] for day in days)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            z, rebuilt = model(torch.cat([early, late]))
        z = z.float()
        cost = torch.cdist(z[: args.cells], z[args.cells :]).square()
        plan = sinkhorn(cost.detach())
        reconstruction = F.mse_loss(rebuilt.float(), torch.log1p(torch.cat([early, late])))
        loss = reconstruction + args.transport_weight * (plan * cost).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % args.log_every == 0:
            print(f"{step:4d} loss {loss.item():.4f} marginal error {sinkhorn.errors[-1]:.2e} after {len(sinkhorn.errors)} checks")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
