# SPDX-License-Identifier: Apache-2.0
"""Behaviour cloning from recorded games of a platform game. The replays are compressed files that a background thread opens one after the other."""

import argparse
import bz2
import os
import queue
import random
import tempfile
import threading
from pathlib import Path

import numpy as np
import torch
from meter import Meter
from torch import nn

SIDE, HISTORY, BUTTONS = 96, 4, 12


def record_replays(folder, games, frames, seed=5):
    """What the recorder leaves: differences between frames, and the buttons held."""
    rng = np.random.default_rng(seed)
    for game in range(games):
        changes = np.where(rng.random((frames, SIDE, SIDE)) < 0.25, rng.integers(0, 256, (frames, SIDE, SIDE)), 0).astype(np.uint8)
        buttons = rng.integers(0, BUTTONS, frames, dtype=np.uint8)
        (folder / f"game{game:03d}.replay").write_bytes(bz2.compress(changes.tobytes() + buttons.tobytes(), 1))


def open_replay(path):
    data = np.frombuffer(bz2.decompress(path.read_bytes()), np.uint8)
    frames = len(data) // (SIDE * SIDE + 1)
    pictures = data[: frames * SIDE * SIDE].reshape(frames, SIDE, SIDE)
    return np.add.accumulate(pictures, axis=0, dtype=np.uint8), data[frames * SIDE * SIDE :]


class ReplayFeed:
    """Iterates over (pictures, buttons), made by background threads that stay up to `depth` batches ahead."""

    def __init__(self, paths, batch_size, depth, threads, views, seed=0):
        self.batch_size, self.views = batch_size, views
        self.paths, self.lock = iter(paths), threading.Lock()
        self.batches = queue.Queue(maxsize=depth)
        self.running = threads
        for number in range(threads):
            threading.Thread(target=self.work, args=(seed + number,), daemon=True).start()

    def next_path(self):
        with self.lock:
            return next(self.paths, None)

    def work(self, seed):
        rng = np.random.default_rng(seed)
        while (path := self.next_path()) is not None:
            pictures, buttons = open_replay(path)
            starts = rng.permutation(len(pictures) - HISTORY)
            for at in range(0, len(starts) - self.batch_size + 1, self.batch_size):
                self.batches.put(self.batch(pictures, buttons, starts[at : at + self.batch_size], rng))
        self.batches.put(None)

    def batch(self, pictures, buttons, starts, rng):
        stacked = pictures[starts[:, None] + np.arange(HISTORY)].astype(np.float32) / 255
        seen = np.zeros_like(stacked)
        for _ in range(self.views):
            down, right = rng.integers(-4, 5, 2)
            shifted = np.roll(stacked, (down, right), (2, 3))
            seen += np.clip(shifted * rng.uniform(0.8, 1.2) + rng.uniform(-0.1, 0.1), 0, 1) / self.views
        return torch.from_numpy(seen), torch.from_numpy(buttons[starts + HISTORY - 1].astype(np.int64))

    def __iter__(self):
        while self.running:
            batch = self.batches.get()
            if batch is None:
                self.running -= 1
            else:
                yield batch


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.first, self.second = (nn.Conv2d(outputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1))

    def forward(self, x):
        x = self.pool(self.conv(x))
        return x + self.second(torch.relu(self.first(torch.relu(x))))


class Player(nn.Module):
    """IMPALA's residual network."""

    def __init__(self, widths):
        super().__init__()
        self.body = nn.Sequential(*[Block(inputs, outputs) for inputs, outputs in zip([HISTORY, *widths], widths)])
        self.head = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(widths[-1] * (SIDE >> len(widths)) ** 2, 256), nn.ReLU(), nn.Linear(256, BUTTONS))

    def forward(self, pictures):
        return self.head(self.body(pictures))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=288)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--batches-per-replay", type=int, default=24)
    parser.add_argument("--depth", type=int, default=2, help="batches that wait in the queue")
    parser.add_argument("--loaders", type=int, default=1, help="threads that open replays")
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--widths", type=int, nargs="+", default=[96, 192, 192])
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--print-every", type=int, default=40)
    parser.add_argument("--lr", type=float, default=2e-4)
    args = parser.parse_args()
    random.seed(5)
    torch.manual_seed(5)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    with tempfile.TemporaryDirectory(dir=os.environ.get("ABROAD_DISK")) as folder:
        record_replays(Path(folder), games=3, frames=args.batches_per_replay * args.batch_size + HISTORY)
        paths = random.choices(sorted(Path(folder).iterdir()), k=-(-args.steps // args.batches_per_replay))
        feed = ReplayFeed(paths, args.batch_size, args.depth, args.loaders, args.views)
        player = Player(args.widths).cuda()
        optimizer = torch.optim.Adam(player.parameters(), lr=args.lr, fused=args.fused or None)
        meter = Meter(args.batches_per_replay, args.batch_size, torch.cuda.synchronize)
        for step, (pictures, buttons) in enumerate(feed, 1):
            pictures, buttons = pictures.cuda(), buttons.cuda()
            with torch.autocast("cuda", torch.bfloat16, enabled=args.bf16):
                loss = nn.functional.cross_entropy(player(pictures), buttons)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.print_every == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
            meter.step()
        meter.print()


if __name__ == "__main__":
    main()
