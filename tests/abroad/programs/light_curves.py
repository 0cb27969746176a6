# SPDX-License-Identifier: Apache-2.0
"""Variable stars by their light curves: a deep and narrow transformer, trained with large learning rates by LAMB."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class Lamb(torch.optim.Optimizer):
    """You et al., 2019, without bias correction."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, foreach=False):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if not self.state[p]:
                    self.state[p] = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
            (self._together if group["foreach"] else self._one_by_one)(params, group)

    def _one_by_one(self, params, group):
        beta1, beta2 = group["betas"]
        for p in params:
            mean, square = self.state[p]["exp_avg"], self.state[p]["exp_avg_sq"]
            mean.mul_(beta1).add_(p.grad, alpha=1 - beta1)
            square.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
            update = mean / square.sqrt().add_(group["eps"])
            update.add_(p, alpha=group["weight_decay"])
            weight_norm, update_norm = p.norm().clamp(0, 10), update.norm()
            trust = torch.where((weight_norm > 0) & (update_norm > 0), weight_norm / update_norm, torch.ones_like(weight_norm))
            p.sub_(update.mul_(trust), alpha=group["lr"])

    def _together(self, params, group):
        beta1, beta2 = group["betas"]
        grads = [p.grad for p in params]
        means, squares = [self.state[p]["exp_avg"] for p in params], [self.state[p]["exp_avg_sq"] for p in params]
        torch._foreach_lerp_(means, grads, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, group["eps"])
        updates = torch._foreach_div(means, roots)
        torch._foreach_add_(updates, params, alpha=group["weight_decay"])
        weight_norms, update_norms = torch.stack(torch._foreach_norm(params)).clamp(0, 10), torch.stack(torch._foreach_norm(updates))
        trust = torch.where((weight_norms > 0) & (update_norms > 0), weight_norms / update_norms, 1.0)
        torch._foreach_mul_(updates, list(trust.unbind()))
        torch._foreach_add_(params, updates, alpha=-group["lr"])


class Classifier(nn.Module):
    def __init__(self, dim, depth, length, classes):
        super().__init__()
        self.embed, self.position = nn.Linear(3, dim), nn.Parameter(torch.zeros(length, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, classes)

    def forward(self, observations):
        return self.head(self.encoder(self.embed(observations) + self.position).amax(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--foreach", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--log-every", type=int, default=100)
    args = parser.parse_args()
    torch.manual_seed(11)
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")

    curves = torch.randn(4096, args.length, 3, device="cuda")
    kinds = torch.randint(0, 12, (4096,), device="cuda")
    model = Classifier(args.dim, args.depth, args.length, 12).cuda()
    optimizer = Lamb(model.parameters(), lr=5e-3, foreach=args.foreach)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step in range(args.steps):
        rows = torch.randint(0, len(curves), (args.batch_size,), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.bf16):
            logits = model(curves[rows] + 0.01 * torch.randn(args.batch_size, args.length, 3, device="cuda"))
        loss = F.cross_entropy(logits.float(), kinds[rows])
        model.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        if step % args.log_every == 0:
            print(f"{step:5d} loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
