# SPDX-License-Identifier: Apache-2.0
"""Vision transformer that saves model and optimizer often, because the cluster preempts jobs."""

import argparse
import os
import tempfile

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--patches", type=int, default=196)
parser.add_argument("--dim", type=int, default=512)
parser.add_argument("--depth", type=int, default=6)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--save-every", type=int, default=10)
parser.add_argument("--bf16", action="store_true")
parser.add_argument("--tf32", action="store_true")
parser.add_argument("--print-every", type=int, default=50)
args = parser.parse_args()
torch.manual_seed(0)
torch.set_float32_matmul_precision("high" if args.tf32 else "highest")


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.position = nn.Linear(768, args.dim), nn.Parameter(torch.zeros(1, args.patches, args.dim))
        layer = nn.TransformerEncoderLayer(args.dim, 8, 4 * args.dim, dropout=0, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, args.depth, enable_nested_tensor=False)
        self.head = nn.Linear(args.dim, 1000)

    def forward(self, patches):
        return self.head(self.encoder(self.embed(patches) + self.position).mean(1))


model = ViT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
pool = [(torch.rand(args.batch, args.patches, 768).pin_memory(), torch.randint(0, 1000, (args.batch,)).pin_memory()) for _ in range(4)]
meter = Meter(20, args.batch, torch.cuda.synchronize)
with tempfile.TemporaryDirectory() as folder:
    for step in range(args.steps):
        patches, labels = (part.cuda(non_blocking=True) for part in pool[step % 4])
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.bf16):
            loss = F.cross_entropy(model(patches).float(), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if (step + 1) % args.save_every == 0:
            path = os.path.join(folder, "last.pt")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".tmp")
            os.replace(path + ".tmp", path)
        if step % args.print_every == 0:
            print(step, float(loss))
        meter.step()
meter.print()
