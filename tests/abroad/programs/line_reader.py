# SPDX-License-Identifier: Apache-2.0
"""Reads printed lines: convolutions, a bidirectional LSTM, CTC. The character error rate goes to the progress line."""

import argparse
import math
from collections import defaultdict

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 .,-"
BLANK = 0


class Lines(Dataset):
    """Glyphs of 24 x 10 set next to one another on a line of 32 x 320, with noise."""

    def __init__(self, count, seed=0):
        self.count = count
        self.glyphs = np.random.default_rng(seed).random((len(ALPHABET), 24, 10), dtype=np.float32) > 0.6

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        text = rng.integers(0, len(ALPHABET), rng.integers(14, 26))
        line = rng.normal(0, 0.1, (32, 320)).astype(np.float32)
        for place, letter in enumerate(text):
            left = 6 + place * 12 + int(rng.integers(0, 2))
            line[4:28, left : left + 10] += self.glyphs[letter]
        return line, text + 1


def collate(batch):
    lines, texts = zip(*batch)
    lengths = torch.tensor([len(text) for text in texts])
    return torch.from_numpy(np.stack(lines)).unsqueeze(1), torch.from_numpy(np.concatenate(texts)), lengths


class CRNN(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(True),
            nn.Conv2d(2 * width, 2 * width, 3, (2, 1), 1), nn.BatchNorm2d(2 * width), nn.ReLU(True),
        )  # fmt: skip
        self.rnn = nn.LSTM(2 * width * 4, hidden, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, len(ALPHABET) + 1)

    def forward(self, x):
        maps = self.conv(x)
        sequence, _ = self.rnn(maps.flatten(1, 2).transpose(1, 2))
        return self.out(sequence).log_softmax(2)


def logsumexp(a, b):
    if a == -math.inf:
        return b
    if b == -math.inf:
        return a
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def beam_search(log_probs, width, letters=6):
    """Prefix beam search on [frame][letter]."""
    beams = {(): (0.0, -math.inf)}
    for frame in log_probs:
        likely = sorted(range(len(frame)), key=frame.__getitem__)[-letters:]
        following = defaultdict(lambda: (-math.inf, -math.inf))
        for prefix, (with_blank, without) in beams.items():
            for letter in likely:
                p = frame[letter]
                if letter == BLANK:
                    blank, other = following[prefix]
                    following[prefix] = logsumexp(blank, logsumexp(with_blank, without) + p), other
                elif prefix and prefix[-1] == letter:
                    blank, other = following[prefix]
                    following[prefix] = blank, logsumexp(other, without + p)
                    blank, other = following[(*prefix, letter)]
                    following[(*prefix, letter)] = blank, logsumexp(other, with_blank + p)
                else:
                    blank, other = following[(*prefix, letter)]
                    following[(*prefix, letter)] = blank, logsumexp(other, logsumexp(with_blank, without) + p)
        beams = dict(sorted(following.items(), key=lambda item: -logsumexp(*item[1]))[:width])
    return next(iter(beams))


def best_path(log_probs):
    letters = [max(range(len(frame)), key=frame.__getitem__) for frame in log_probs]
    return tuple(b for a, b in zip([BLANK, *letters], letters) if b not in (a, BLANK))


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return row[-1]


def character_error_rate(log_probs, targets, lengths, decoder, beam):
    errors = 0
    for frames, text in zip(log_probs.tolist(), targets.split(lengths.tolist())):
        read = beam_search(frames, beam) if decoder == "beam" else best_path(frames)
        errors += edit_distance(read, text.tolist())
    return errors / int(lengths.sum())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--cer-every", type=int, default=1)
    parser.add_argument("--cer-lines", type=int, default=8, help="lines of the batch that are read for it")
    parser.add_argument("--decoder", choices=["beam", "best-path"], default="beam")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--print-every", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(
        Lines(args.steps * args.batch_size), args.batch_size, collate_fn=collate, num_workers=args.num_workers,
        prefetch_factor=args.prefetch_factor if args.num_workers else None,
    )  # fmt: skip
    model = CRNN(args.width, args.hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    meter, cer = Meter(6, args.batch_size), 1.0
    for step, (lines, targets, lengths) in enumerate(loader):
        log_probs = model(lines)
        loss = ctc(log_probs.transpose(0, 1), targets, torch.full_like(lengths, log_probs.shape[1]), lengths)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % args.cer_every == 0:
            few = lengths[: args.cer_lines]
            cer = 0.9 * cer + 0.1 * character_error_rate(log_probs[: len(few)].detach(), targets[: int(few.sum())], few, args.decoder, args.beam)
        if step % args.print_every == 0:
            print(f"step {step} ctc {loss.item():.3f} cer {cer:.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
