# SPDX-License-Identifier: Apache-2.0
"""Votes of volunteers on the shapes of galaxies, predicted by a ConvNeXt-like network. The norms of gradients and weights go
into the run's history, since the third stage would not learn in spring."""

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path

import torch
from meter import Meter
from torch import nn


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.pwconv1, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(1e-6 * torch.ones(dim))

    def forward(self, x):
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(nn.functional.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext(depths, dims, answers):
    stages = [nn.Conv2d(3, dims[0], 4, 4), LayerNorm2d(dims[0])]
    for number, (depth, dim) in enumerate(zip(depths, dims)):
        if number:
            stages += [LayerNorm2d(dims[number - 1]), nn.Conv2d(dims[number - 1], dim, 2, 2)]
        stages += [Block(dim) for _ in range(depth)]
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(dims[-1]), nn.Linear(dims[-1], answers))


class GradientHistory:
    """norms[name] = [(norm of the gradient, its largest element, norm of the weights) in each step that was looked at]"""

    def __init__(self, model, every, together):
        self.named, self.every, self.together = list(model.named_parameters()), every, together
        self.norms = defaultdict(list)

    @torch.no_grad()
    def look(self, step):
        if step % self.every:
            return
        if self.together:
            weights, grads = [p for _, p in self.named], [p.grad for _, p in self.named]
            columns = torch._foreach_norm(grads), torch._foreach_norm(grads, float("inf")), torch._foreach_norm(weights)
            for (name, _), *row in zip(self.named, *torch.stack([torch.stack(column) for column in columns]).tolist()):
                self.norms[name].append(row)
            return
        for name, p in self.named:
            self.norms[name].append([p.grad.norm().item(), p.grad.abs().max().item(), p.norm().item()])

    def save(self, path):
        path.write_text(json.dumps(self.norms))


def vote_loss(logits, votes):
    """Dirichlet-multinomial would be better; this is the cross entropy of vote fractions."""
    return -(votes * logits.log_softmax(1)).sum(1).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--size", type=int, default=96)
    p.add_argument("--steps", type=int, default=160)
    p.add_argument("--depths", type=int, nargs=4, default=[3, 3, 9, 3])
    p.add_argument("--dims", type=int, nargs=4, default=[96, 192, 384, 768])
    p.add_argument("--norms-every", type=int, default=1)
    p.add_argument("--norms-together", action="store_true")
    p.add_argument("--optimizer", choices=["foreach", "fused"], default="foreach")
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--tf32", action="store_true")
    p.add_argument("--loss-every", type=int, default=50)
    args = p.parse_args()
    torch.manual_seed(3)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32

    net = convnext(args.depths, args.dims, 34).cuda()
    if args.channels_last:
        net = net.to(memory_format=torch.channels_last)
    opt = torch.optim.AdamW(net.parameters(), 4e-4, weight_decay=0.05, **{args.optimizer: True})
    images = torch.rand(1024, 3, args.size, args.size, device="cuda")
    votes = torch.rand(1024, 34, device="cuda").softmax(1)
    history = GradientHistory(net, args.norms_every, args.norms_together)
    meter = Meter(20, args.batch, torch.cuda.synchronize)
    for step in range(args.steps):
        rows = slice(step * args.batch % (1025 - args.batch), None)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = net(images[rows][: args.batch])
        loss = vote_loss(logits.float(), votes[rows][: args.batch])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        history.look(step)
        opt.step()
        if step % args.loss_every == 0:
            print(f"{step:>5} {loss.item():.5f}")
        meter.step()
    meter.print()
    with tempfile.TemporaryDirectory() as folder:
        history.save(Path(folder) / "gradients.json")


if __name__ == "__main__":
    main()
