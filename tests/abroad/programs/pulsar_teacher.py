# SPDX-License-Identifier: Apache-2.0
"""Sifts pulsar candidates from folded profiles, most of them without a label: a mean teacher (Tarvainen and Valpola, 2017) on a deep 1-D network."""

import argparse
import copy

import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F


def make_candidates(count, bins, seed=33):
    """Three rows each: the pulse profile, its sub-bands folded once more, and the curve over trial dispersion measures."""
    torch.manual_seed(seed)
    phase = torch.linspace(0, 1, bins)
    label = (torch.rand(count) < 0.3).long()
    centre, width = torch.rand(count, 1), 0.02 + 0.06 * torch.rand(count, 1)
    pulse = torch.exp(-((phase - centre) ** 2) / (2 * width**2))
    curve = torch.exp(-((phase - 0.5) ** 2) / 0.02).expand(count, bins)
    signal = torch.stack([pulse, pulse.roll(bins // 50, 1), curve], 1)
    return label[:, None, None] * signal + 0.4 * torch.randn(count, 3, bins), label


class Unit(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv1d(inputs, outputs, 1, bias=False), nn.BatchNorm1d(outputs)
        self.conv2, self.norm2 = nn.Conv1d(outputs, outputs, 7, stride, 3, bias=False), nn.BatchNorm1d(outputs)
        self.conv3, self.norm3 = nn.Conv1d(outputs, outputs, 1, bias=False), nn.BatchNorm1d(outputs)
        self.skip = nn.Conv1d(inputs, outputs, 1, stride, bias=False) if stride > 1 or inputs != outputs else nn.Identity()

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        h = F.relu(self.norm2(self.conv2(h)))
        return F.relu(self.skip(x) + self.norm3(self.conv3(h)))


class Sifter(nn.Module):
    def __init__(self, width, units):
        super().__init__()
        sizes = [width, width, 2 * width, 4 * width]
        self.stem = nn.Conv1d(3, width, 9, padding=4)
        layers = [Unit(sizes[s] if k == 0 else sizes[s + 1], sizes[s + 1], 2 if k == 0 else 1) for s in range(3) for k in range(units)]
        self.body, self.out = nn.Sequential(*layers), nn.Linear(sizes[-1], 2)

    def forward(self, x):
        return self.out(self.body(self.stem(x)).mean(-1))


class Teacher:
    """A slow copy of the student."""

    def __init__(self, student, decay, kind, every):
        self.net, self.kind = copy.deepcopy(student).requires_grad_(False), kind
        self.decay, self.every = decay**every, every
        self.mine, self.theirs = list(self.net.parameters()), list(student.parameters())
        self.my_buffers, self.their_buffers = list(self.net.buffers()), list(student.buffers())

    @torch.no_grad()
    def update(self):
        if self.kind == "foreach":
            torch._foreach_lerp_(self.mine, self.theirs, 1 - self.decay)
            torch._foreach_copy_(self.my_buffers, self.their_buffers)
            return
        for mine, theirs in zip(self.mine, self.theirs):
            mine.mul_(self.decay).add_(theirs, alpha=1 - self.decay)
        for mine, theirs in zip(self.my_buffers, self.their_buffers):
            mine.copy_(theirs)


def make_optimizer(kind, parameters, lr):
    return torch.optim.AdamW(parameters, lr=lr, weight_decay=1e-2, foreach=kind == "foreach", fused=kind == "fused")


def shaken(x):
    """A random rotation in phase, gain and noise for the whole batch."""
    return torch.rand(len(x), 1, 1, device=x.device).add(0.5) * x + 0.1 * torch.randn_like(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--bins", type=int, default=128)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--units", type=int, default=8, help="of each of the three stages")
    parser.add_argument("--labelled", type=int, default=32)
    parser.add_argument("--unlabelled", type=int, default=96)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--optimizer", choices=["loop", "foreach", "fused"], default="loop")
    parser.add_argument("--ema", choices=["loop", "foreach"], default="loop")
    parser.add_argument("--ema-decay", type=float, default=0.996)
    parser.add_argument("--ema-every", type=int, default=1)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()

    torch.manual_seed(33)
    torch.backends.cudnn.benchmark = args.benchmark
    profiles, labels = (x.to("cuda") for x in make_candidates(args.candidates, args.bins))
    known = args.candidates // 20
    student = Sifter(args.width, args.units).to("cuda")
    teacher = Teacher(student, args.ema_decay, args.ema, args.ema_every)
    optimizer = make_optimizer(args.optimizer, student.parameters(), args.lr)
    meter = Meter(20, args.labelled + args.unlabelled, torch.cuda.synchronize)
    for step in range(1, args.steps + 1):
        rows = torch.cat([torch.randint(known, (args.labelled,), device="cuda"), torch.randint(known, args.candidates, (args.unlabelled,), device="cuda")])
        x = profiles[rows]
        with torch.autocast("cuda", torch.bfloat16, enabled=args.bf16):
            with torch.no_grad():
                wanted = teacher.net(shaken(x)).softmax(-1)
            logits = student(shaken(x))
        loss = F.cross_entropy(logits[: args.labelled], labels[rows[: args.labelled]])
        loss = loss + 3 * min(step / 1000, 1) * F.mse_loss(logits.softmax(-1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.ema_every == 0:
            teacher.update()
        if step % args.log_every == 0:
            print(f"step {step} loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
