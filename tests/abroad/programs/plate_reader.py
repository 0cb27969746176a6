# SPDX-License-Identifier: Apache-2.0
"""Reads text lines from photos: convolutions, then a transformer with one query for each place of a letter. The progress bar shows the
character error rate and the share of lines without a mistake."""

import argparse
import random
import string

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn

LETTERS = string.ascii_lowercase + string.digits + " -.,:/"


class Lines:
    """Rendered lines on the device, and what they say on the host."""

    def __init__(self, count, height, width, places):
        letters = random.Random(0)
        self.texts = ["".join(letters.choices(LETTERS, k=places)) for _ in range(count)]
        self.images = torch.rand(count, 1, height, width, device="cuda")
        self.codes = torch.tensor([[LETTERS.index(letter) for letter in text] for text in self.texts], device="cuda")

    def batch(self, at, size):
        rows = slice(at, at + size)
        return self.images[rows], self.codes[rows], self.texts[rows]


class LineReader(nn.Module):
    def __init__(self, width, dim, layers, places):
        super().__init__()
        stages, inputs = [], 1
        for outputs in (width, 2 * width, 4 * width, dim):
            stages += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True), nn.MaxPool2d(2)]
            inputs = outputs
        self.cnn = nn.Sequential(*stages)
        self.queries = nn.Parameter(torch.randn(places, dim) * 0.02)
        layer = nn.TransformerDecoderLayer(dim, dim // 64, 4 * dim, 0.0, batch_first=True, norm_first=True)
        self.decoder, self.letters = nn.TransformerDecoder(layer, layers), nn.Linear(dim, len(LETTERS))

    def forward(self, images):
        memory = self.cnn(images).flatten(2).transpose(1, 2)
        return self.letters(self.decoder(self.queries.expand(len(images), -1, -1), memory))


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


class ErrorRate:
    def __init__(self):
        self.mistakes = self.letters = self.right = self.lines = 0

    def update(self, logits, texts):
        for codes, text in zip(logits.argmax(2).tolist(), texts):
            mistakes = edit_distance("".join(LETTERS[code] for code in codes), text)
            self.mistakes, self.letters = self.mistakes + mistakes, self.letters + len(text)
            self.right, self.lines = self.right + (mistakes == 0), self.lines + 1

    def __str__(self):
        return f"CER {self.mistakes / max(1, self.letters):.3f} lines right {self.right / max(1, self.lines):.3f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--height", type=int, default=32)
    parser.add_argument("--line-width", type=int, default=320)
    parser.add_argument("--letters", type=int, default=32)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--cer-every", type=int, default=1)
    parser.add_argument("--optimizer", choices=["foreach", "fused"], default="fused")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--benchmark", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32
    torch.backends.cudnn.benchmark = args.benchmark

    lines = Lines(1024, args.height, args.line_width, args.letters)
    model = LineReader(64, args.dim, args.layers, args.letters).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, **{args.optimizer: True})
    rate, running = ErrorRate(), torch.zeros((), device="cuda")
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step in range(args.steps):
        images, codes, texts = lines.batch(step * args.batch_size % (1025 - args.batch_size), args.batch_size)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(images)
        loss = F.cross_entropy(logits.float().flatten(0, 1), codes.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running += loss.detach()
        if step % args.cer_every == 0:
            rate.update(logits, texts)
        if step % 50 == 49:
            print(f"{step + 1}/{args.steps} loss {running.item() / 50:.3f} {rate}")
            running.zero_()
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
