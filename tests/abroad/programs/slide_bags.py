# SPDX-License-Identifier: Apache-2.0
"""Grade of a tumour from a whole slide: a bag of tiles, as many as there is tissue, pooled by gated attention. One slide a step."""

import argparse
import random

import torch
from meter import Meter
from torch import nn


def stage(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.GroupNorm(8, outputs), nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(8, outputs), nn.SiLU(),
    )  # fmt: skip


class GatedAttention(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.tanh, self.gate, self.score = nn.Linear(dim, hidden), nn.Linear(dim, hidden), nn.Linear(hidden, 1)

    def forward(self, tiles):
        weights = self.score(torch.tanh(self.tanh(tiles)) * torch.sigmoid(self.gate(tiles))).softmax(0)
        return (weights * tiles).sum(0, keepdim=True)


class SlideNet(nn.Module):
    def __init__(self, width, grades):
        super().__init__()
        self.encoder = nn.Sequential(*(stage(*pair) for pair in zip([3, width, 2 * width, 4 * width], [width, 2 * width, 4 * width, 8 * width])))
        self.pool, self.head = GatedAttention(8 * width, 128), nn.Linear(8 * width, grades)

    def forward(self, tiles):
        return self.head(self.pool(self.encoder(tiles).mean((2, 3))))


class Slides:
    """Tiles of all slides in one page-locked array, a slide after the other."""

    def __init__(self, count, least, most, size):
        rng = random.Random(77)
        self.spans, at = [], 0
        for _ in range(count):
            tiles = rng.randint(least, most)
            self.spans.append((at, at + tiles))
            at += tiles // 4  # neighbouring slides share tiles here, to save memory
        self.tiles = torch.randint(0, 256, (at + most, 3, size, size), dtype=torch.uint8).pin_memory()
        self.grades = torch.randint(0, 5, (count,)).pin_memory()

    def __len__(self):
        return len(self.spans)

    def __getitem__(self, number):
        first, last = self.spans[number]
        return self.tiles[first:last].cuda(non_blocking=True), self.grades[number : number + 1].cuda(non_blocking=True)


class MemoryBudget:
    """The viewer of the pathologists runs on the same card."""

    def __init__(self, gib):
        self.bytes = gib * 2**30

    def keep(self):
        if torch.cuda.memory_reserved() > self.bytes:
            torch.cuda.empty_cache()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--slides", type=int, default=120)
    ap.add_argument("--tiles", type=int, nargs=2, default=(64, 320), metavar=("LEAST", "MOST"))
    ap.add_argument("--tile-size", type=int, default=96)
    ap.add_argument("--width", type=int, default=48)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--memory-gib", type=float, default=0.5)
    ap.add_argument("--accumulate", type=int, default=4)
    ap.add_argument("--adam", choices=["foreach", "fused"], default="foreach")
    ap.add_argument("--benchmark", action="store_true")
    ap.add_argument("--fp32", action="store_true")
    ap.add_argument("--print-every", type=int, default=50)
    args = ap.parse_args()
    torch.manual_seed(77)
    torch.backends.cudnn.benchmark = args.benchmark

    slides, budget = Slides(args.slides, *args.tiles, args.tile_size), MemoryBudget(args.memory_gib)
    net = SlideNet(args.width, 5).cuda()
    optimizer = torch.optim.Adam(net.parameters(), 1e-4, **{args.adam: True})
    order, meter, step = random.Random(7), Meter(15, 1, torch.cuda.synchronize), 0
    for epoch in range(args.epochs):
        for number in order.sample(range(len(slides)), len(slides)):
            tiles, grade = slides[number]
            tiles = tiles.float().div_(127.5).sub_(1)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not args.fp32):
                logits = net(tiles)
            loss = nn.functional.cross_entropy(logits.float(), grade) / args.accumulate
            loss.backward()
            step += 1
            if step % args.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            if step % args.print_every == 0:
                print(f"epoch {epoch} slide {step} loss {args.accumulate * loss.item():.4f}")
            del tiles, logits, loss
            budget.keep()
            meter.step()
    meter.print()


if __name__ == "__main__":
    main()
