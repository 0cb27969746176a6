# SPDX-License-Identifier: Apache-2.0
"""Siamese network with a triplet loss that appends each step's metrics to a JSON-lines file, safely: flushed and synced."""

import argparse
import json
import os
import tempfile
import time

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--log-every", type=int, default=1)
parser.add_argument("--no-fsync", action="store_true")
parser.add_argument("--amp", action="store_true")
parser.add_argument("--width", type=int, default=1536)
args = parser.parse_args()
torch.manual_seed(0)

tower = nn.Sequential(nn.Linear(512, args.width), nn.GELU(), nn.Linear(args.width, args.width), nn.GELU(), nn.Linear(args.width, 128)).cuda()
optimizer = torch.optim.AdamW(tower.parameters(), lr=1e-3, fused=True)
triplets = torch.randn(3, 16 * args.batch, 512, device="cuda")
log = open(tempfile.NamedTemporaryFile(dir=os.environ.get("ABROAD_DISK", "."), suffix=".jsonl", delete=False).name, "a")
meter = Meter(20, args.batch, torch.cuda.synchronize)
for step in range(args.steps):
    at = step % 16 * args.batch
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.amp):
        anchor, positive, negative = tower(triplets[:, at : at + args.batch]).float()
    loss = F.triplet_margin_loss(anchor, positive, negative)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % args.log_every == 0:
        norms = {name: 0.0 for name, _ in tower.named_parameters()}
        for _ in range(40):  # histories of each layer, as a dashboard wants them
            log.write(json.dumps({"step": step, "time": time.time(), **norms}) + "\n")
            log.flush()
        if not args.no_fsync:
            os.fsync(log.fileno())
    meter.step()
meter.print()
os.unlink(log.name)
