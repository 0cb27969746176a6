# SPDX-License-Identifier: Apache-2.0
"""Top quark or not: jets as sets of up to 128 particles, and a transformer with pair features (a small ParT). The dataset gives
tensors that are on the device already."""

import argparse

import numpy as np
import torch
import torch.nn as nn
from meter import Meter
from torch.utils.data import DataLoader, Dataset

PARTICLES, FEATURES = 128, 7


class Jets(Dataset):
    def __init__(self, count, device):
        rng = np.random.default_rng(125)
        self.labels = rng.integers(0, 2, count)
        pt = np.sort(rng.pareto(1.5, (count, PARTICLES)), 1)[:, ::-1] + 0.5
        eta, phi = rng.normal(0, 0.3 + 0.1 * self.labels[:, None], (2, count, PARTICLES))
        charge = rng.integers(-1, 2, (3, count, PARTICLES))
        self.particles = np.stack([np.log(pt), eta, phi, np.hypot(eta, phi), *charge], 2).astype(np.float32)
        self.kept = np.arange(PARTICLES) < rng.integers(20, PARTICLES + 1, (count, 1))
        self.device = device
        if device == "all":
            self.particles = torch.from_numpy(self.particles).cuda()
            self.kept, self.labels = torch.from_numpy(self.kept).cuda(), torch.from_numpy(self.labels).cuda()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        if self.device == "all":
            return self.particles[i], self.kept[i], self.labels[i]
        jet = torch.from_numpy(self.particles[i]), torch.from_numpy(self.kept[i]), torch.tensor(self.labels[i])
        return tuple(part.to("cuda") for part in jet) if self.device == "item" else jet


class JetLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, bias):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class JetTransformer(nn.Module):
    def __init__(self, dim, heads, depth):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(FEATURES, dim), nn.GELU(), nn.Linear(dim, dim))
        self.pairs = nn.Sequential(nn.Conv2d(2, 32, 1), nn.GELU(), nn.Conv2d(32, heads, 1))
        self.layers = nn.ModuleList([JetLayer(dim, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 2)

    def forward(self, jets, kept):
        eta_phi = jets[:, :, 1:3]
        distance = torch.cdist(eta_phi, eta_phi).clamp(min=1e-4).log()
        softer = torch.minimum(jets[:, :, None, 0], jets[:, None, :, 0])
        bias = self.pairs(torch.stack([distance, softer], 1)).masked_fill(~kept[:, None, None], -1e4)
        x = self.embed(jets)
        for layer in self.layers:
            x = layer(x, bias.to(x.dtype))
        return self.head((self.norm(x) * kept[..., None]).sum(1) / kept.sum(1, keepdim=True))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--to-device", choices=["item", "batch", "all"], default="item")
    ap.add_argument("--workers", type=int, default=0)
    ap.add_argument("--pin", action="store_true")
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--jets", type=int, default=20_000)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--depth", type=int, default=6)
    ap.add_argument("--print-every", type=int, default=40)
    args = ap.parse_args()
    torch.manual_seed(125)

    loader = DataLoader(
        Jets(args.jets, args.to_device), args.batch, shuffle=True, drop_last=True, num_workers=args.workers, pin_memory=args.pin
    )
    net = JetTransformer(args.dim, 8, args.depth).cuda()
    opt = torch.optim.RAdam(net.parameters(), 1e-3)
    meter, step = Meter(15, args.batch, torch.cuda.synchronize), 0
    for epoch in range(args.epochs):
        for jets, kept, labels in loader:
            jets, kept, labels = (part.to("cuda", non_blocking=True) for part in (jets, kept, labels))
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = net(jets, kept)
            loss = nn.functional.cross_entropy(logits.float(), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % args.print_every == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
            meter.step()
    meter.print()


if __name__ == "__main__":
    main()
