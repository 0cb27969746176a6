# SPDX-License-Identifier: Apache-2.0
"""Pretraining without labels: a student sees half of the patches and predicts what its own moving average makes of all."""

import argparse
import copy

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, count, size):
        self.photos, self.count = torch.randint(0, 256, (160, 3, size, size), dtype=torch.uint8), count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.photos[index % len(self.photos)]


class Prefetcher:
    """Copies the next batch on another stream while this one is computed."""

    def __init__(self, loader):
        self.loader, self.stream = iter(loader), torch.cuda.Stream()
        self.mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(1, 3, 1, 1) * 255
        self.std = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(1, 3, 1, 1) * 255
        self.preload()

    def preload(self):
        photos = next(self.loader, None)
        if photos is None:
            self.following = None
            return
        with torch.cuda.stream(self.stream):
            self.following = photos.cuda(non_blocking=True).float().sub_(self.mean).div_(self.std)

    def __iter__(self):
        while self.following is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            photos = self.following
            photos.record_stream(torch.cuda.current_stream())
            self.preload()
            yield photos


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, size, patch, dim, depth):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.position, self.mask = nn.Parameter(torch.zeros(1, (size // patch) ** 2, dim)), nn.Parameter(torch.zeros(dim))
        self.blocks = nn.Sequential(*[Block(dim, dim // 64) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, photos, hidden=None):
        x = self.patches(photos).flatten(2).transpose(1, 2)
        if hidden is not None:
            x = torch.where(hidden[..., None], self.mask.to(x.dtype), x)
        return self.norm(self.blocks(x + self.position))


def main(args):
    torch.manual_seed(5)
    student = VisionTransformer(args.size, 16, args.dim, args.depth).cuda()
    teacher = copy.deepcopy(student).requires_grad_(False)
    predictor = nn.Sequential(nn.Linear(args.dim, args.dim), nn.GELU(), nn.Linear(args.dim, args.dim)).cuda()
    trained = [*student.parameters(), *predictor.parameters()]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.05, fused=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    loader = DataLoader(Photos(args.steps * args.batch_size, args.size), args.batch_size, num_workers=args.workers, pin_memory=True, prefetch_factor=args.prefetch_factor, drop_last=True)
    running = torch.zeros((), device="cuda")
    meter = Meter(15, args.batch_size, torch.cuda.synchronize)
    for step, photos in enumerate(Prefetcher(loader)):
        hidden = torch.rand(len(photos), (args.size // 16) ** 2, device="cuda") < 0.5
        with torch.autocast("cuda", dtype=torch.bfloat16):
            with torch.no_grad():
                targets = F.layer_norm(teacher(photos).float(), (args.dim,))
            predicted = predictor(student(photos, hidden)).float()
        distances = F.smooth_l1_loss(predicted, targets, reduction="none").mean(2)
        loss = (distances * hidden).sum() / hidden.sum().clamp(min=1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 3.0)
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(teacher.parameters()), list(student.parameters()), 1 - args.momentum)
        running += loss.detach()
        if (step + 1) % args.log_every == 0:
            print(f"step {step + 1} loss {running.item() / args.log_every:.4f}")
            running.zero_()
        meter.step()
    meter.print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--momentum", type=float, default=0.998)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--log-every", type=int, default=50)
    main(parser.parse_args())
