# SPDX-License-Identifier: Apache-2.0
"""Who wrote this piece? Scores in the text form of `midicsv` become piano rolls, a network with dilated convolutions listens."""

import argparse
from collections import deque
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from meter import Meter
from torch import nn

FRAMES, PITCHES = 256, 88


def read_score(path):
    """[(frame, pitch, length, velocity)] of a score. Tempo changes count."""
    tempo, division, seconds, last, open_notes, notes = 500_000, 480, 0.0, 0, {}, []
    for line in path.read_text().splitlines():
        fields = [field.strip() for field in line.split(",")]
        tick, event = int(fields[1]), fields[2]
        seconds += (tick - last) / division * tempo / 1e6
        last = tick
        if event == "Header":
            division = int(fields[5])
        elif event == "Tempo":
            tempo = int(fields[3])
        elif event == "Note_on_c" and int(fields[5]) > 0:
            open_notes[fields[4]] = (seconds, int(fields[5]))
        elif event in ("Note_on_c", "Note_off_c") and fields[4] in open_notes:
            began, velocity = open_notes.pop(fields[4])
            notes.append((int(began * 16), int(fields[4]) - 21, max(1, int((seconds - began) * 16)), velocity))
    return notes


class Scores:
    def __init__(self, root, keep):
        self.paths = sorted(Path(root).rglob("*.csv"))
        self.composers = sorted({path.parent.name for path in self.paths})
        self.notes = lru_cache(maxsize=None)(read_score) if keep else read_score

    def item(self, number, transpose):
        path = self.paths[number]
        roll = np.zeros((PITCHES, FRAMES), np.float32)
        for frame, pitch, length, velocity in self.notes(path):
            if 0 <= pitch + transpose < PITCHES:
                roll[pitch + transpose, frame : frame + length] = velocity / 127
        return roll, self.composers.index(path.parent.name)


def make_batch(numbers, transposed):
    rolls, composers = zip(*[SCORES.item(number, by) for number, by in zip(numbers, transposed)])
    return np.stack(rolls), np.array(composers)


def batches(args):
    """Keeps `ahead` batches in the making."""
    rng = np.random.default_rng(4)
    pool = ProcessPoolExecutor if args.processes else ThreadPoolExecutor
    with pool(args.jobs) as executor:
        pending = deque()
        for _ in range(args.epochs):
            order = rng.permutation(len(SCORES.paths))
            for at in range(0, len(order) - args.batch_size + 1, args.batch_size):
                pending.append(executor.submit(make_batch, order[at : at + args.batch_size], rng.integers(-5, 7, args.batch_size)))
                if len(pending) > args.ahead:
                    yield map(torch.from_numpy, pending.popleft().result())
        while pending:
            yield map(torch.from_numpy, pending.popleft().result())


class Listener(nn.Module):
    def __init__(self, composers, width=32):
        super().__init__()
        self.inp = nn.Conv1d(PITCHES, width, 3, padding=1)
        self.layers = nn.ModuleList([nn.Conv1d(width, width, 3, padding=2**k, dilation=2**k) for k in range(5)])
        self.norms = nn.ModuleList([nn.GroupNorm(8, width) for _ in range(5)])
        self.out = nn.Linear(2 * width, composers)

    def forward(self, x):
        x = self.inp(x)
        for layer, norm in zip(self.layers, self.norms):
            x = x + torch.nn.functional.gelu(layer(norm(x)))
        return self.out(torch.cat([x.mean(2), x.amax(2)], 1))


ap = argparse.ArgumentParser()
ap.add_argument("scores", type=Path)
ap.add_argument("--jobs", type=int, default=1)
ap.add_argument("--processes", action="store_true", help="jobs are processes, not threads")
ap.add_argument("--ahead", type=int, default=4)
ap.add_argument("--keep-notes", action="store_true", help="read each score once")
ap.add_argument("--batch-size", type=int, default=16)
ap.add_argument("--epochs", type=int, default=8)
ap.add_argument("--log-every", type=int, default=50)
args = ap.parse_args()

SCORES = Scores(args.scores, args.keep_notes)
torch.manual_seed(4)
net = Listener(len(SCORES.composers))
opt = torch.optim.Adam(net.parameters(), 5e-4)
meter = Meter(30, args.batch_size)
for step, (rolls, composers) in enumerate(batches(args)):
    loss = nn.functional.cross_entropy(net(rolls), composers)
    opt.zero_grad()
    loss.backward()
    opt.step()
    meter.step()
    if step % args.log_every == 0:
        print(step, f"{loss.item():.3f}")
meter.print()
