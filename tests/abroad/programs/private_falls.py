# SPDX-License-Identifier: Apache-2.0
"""Falls in nursing homes from a wristband's accelerometer, with differential privacy (DP-SGD): the gradient of each recording is
clipped by itself, noise is added to their sum. Recordings of a step are drawn independently, so a lot's size varies."""

import argparse
import math

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.func import functional_call, grad_and_value, vmap


class Block(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.along1, self.along2 = nn.Linear(tokens, 2 * tokens), nn.Linear(2 * tokens, tokens)
        self.across1, self.across2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        x = x + self.along2(F.gelu(self.along1(self.norm1(x).transpose(-1, -2)))).transpose(-1, -2)
        return x + self.across2(F.gelu(self.across1(self.norm2(x))))


class FallNet(nn.Module):
    """Windows of half a second, mixed along time and across features. No batch norm: that would look at other people's recordings."""

    def __init__(self, seconds, hertz, dim, depth):
        super().__init__()
        self.window = hertz // 2
        self.embed = nn.Linear(3 * self.window, dim)
        self.blocks = nn.ModuleList([Block(2 * seconds, dim) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 4)

    def forward(self, x):
        x = self.embed(x.unflatten(-1, (-1, self.window)).transpose(-3, -2).flatten(-2))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(-2))


class PerSampleLoop:
    """Backward for each recording, as the paper has it."""

    def __init__(self, net, bound):
        self.net, self.bound, self.params = net, bound, list(net.parameters())

    def __call__(self, recordings, labels):
        total, losses = [torch.zeros_like(p) for p in self.params], []
        for recording, label in zip(recordings.split(1), labels.split(1)):
            loss = F.cross_entropy(self.net(recording), label)
            grads = torch.autograd.grad(loss, self.params)
            norm = torch.stack([grad.norm() for grad in grads]).norm()
            factor = (self.bound / (norm + 1e-6)).clamp(max=1)
            for part, grad in zip(total, grads):
                part.add_(grad * factor)
            losses.append(loss.detach())
        return total, torch.stack(losses).mean()


class PerSampleVmap:
    """The gradients of all recordings at once, with one more dimension."""

    def __init__(self, net, bound):
        self.bound, self.params = bound, dict(net.named_parameters())

        def loss_of(params, recording, label):
            return F.cross_entropy(functional_call(net, params, (recording[None],)), label[None])

        self.compute = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0))

    def __call__(self, recordings, labels):
        params = {name: p.detach() for name, p in self.params.items()}
        grads, losses = self.compute(params, recordings, labels)
        norms = torch.stack([grad.flatten(1).norm(dim=1) for grad in grads.values()]).norm(dim=0)
        factors = (self.bound / (norms + 1e-6)).clamp(max=1)
        return [torch.tensordot(factors, grad, 1) for grad in grads.values()], losses.mean()


def noise_multiplier(epsilon, delta, rate, steps):
    """A rough bound by strong composition; the accountant of the study gives the number that counts."""
    return max(0.5, rate * math.sqrt(2 * steps * math.log(1 / delta)) / epsilon)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lot-size", type=int, default=10, help="recordings of a step, on average")
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--per-sample", choices=["loop", "vmap"], default="loop")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--recordings", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=96)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--report-every", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(21)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32

    recordings = torch.randn(args.recordings, 3, 12 * 50, device="cuda")
    labels = torch.randint(0, 4, (args.recordings,), device="cuda")
    net = FallNet(12, 50, args.dim, args.depth).cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.2, momentum=0.9, fused=args.fused or None)
    rate = args.lot_size / args.recordings
    sigma = noise_multiplier(args.epsilon, args.delta, rate, args.steps) * args.clip
    gradients = (PerSampleVmap if args.per_sample == "vmap" else PerSampleLoop)(net, args.clip)
    lots = torch.Generator().manual_seed(22)
    meter = Meter(15, args.lot_size, torch.cuda.synchronize)
    for step in range(args.steps):
        count = max(1, int(torch.poisson(torch.tensor([float(args.lot_size)]), generator=lots)))
        rows = torch.randint(0, args.recordings, (count,), generator=lots).cuda()
        total, loss = gradients(recordings[rows], labels[rows])
        for p, summed in zip(net.parameters(), total):
            p.grad = (summed + sigma * torch.randn_like(p)) / args.lot_size
        optimizer.step()
        if step % args.report_every == 0:
            print(f"step {step} of {args.steps}: loss {loss.item():.4f}, lot of {count}, sigma {sigma:.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
