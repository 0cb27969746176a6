# SPDX-License-Identifier: Apache-2.0
"""PointNet-like network on point clouds. It guards against NaNs and prunes far points, in each step."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--points", type=int, default=1024)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--check-every", type=int, default=1, help="how often to look for NaNs and at the gradient's norm")
parser.add_argument("--mask", action="store_true", help="weigh far points with 0 instead of removing them")
parser.add_argument("--optimizer", choices=["foreach", "fused"], default="foreach")
parser.add_argument("--bf16", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 128), nn.ReLU(), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1024), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 40))

    def forward(self, points, weight):
        return self.head((self.local(points) * weight).view(args.batch, -1, 1024).mean(1))


model = PointNet().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **{args.optimizer: True})
clouds, labels = torch.randn(256, args.points, 3, device="cuda"), torch.randint(0, 40, (256,), device="cuda")
meter = Meter(20, args.batch, torch.cuda.synchronize)
for step in range(args.steps):
    at = step * args.batch % 256
    points, wanted = clouds[at : at + args.batch], labels[at : at + args.batch]
    near = (points.norm(dim=2, keepdim=True) < 3).float()
    if not args.mask:
        outliers = (near == 0).nonzero()  # for the log
        kept = len(outliers)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.bf16):
        logits = model(points.reshape(-1, 3), near.reshape(-1, 1))
    loss = F.cross_entropy(logits.float(), wanted)
    if step % args.check_every == 0 and torch.isnan(loss):
        raise SystemExit(f"NaN in step {step}")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if step % args.check_every == 0 and norm.item() > 1e4:
        print("gradient explodes", norm.item())
    optimizer.step()
    meter.step()
meter.print()
