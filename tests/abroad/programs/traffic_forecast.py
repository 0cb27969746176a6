# SPDX-License-Identifier: Apache-2.0
"""Forecasts the speed at 200 road sensors for the next hour: a network of temporal convolutions in the style of scikit-learn's estimators."""

import argparse
import os
import tempfile
from collections import deque
from pathlib import Path

import numpy as np
import torch
from meter import Meter
from torch import nn


def make_speeds(sensors, samples, seed=3):
    """Every five minutes: the rush hours of each sensor, and jams that move on."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples, dtype=np.float32)[:, None] / 288 * 2 * np.pi
    phase = rng.uniform(0, 0.6, sensors).astype(np.float32)
    speeds = 60 - 15 * np.sin(t + phase) ** 2 - 8 * np.sin(2 * t + phase)
    speeds += rng.standard_normal((samples, sensors), dtype=np.float32) * 2
    return speeds


class TCN(nn.Module):
    def __init__(self, sensors, channels, horizon, blocks=4):
        super().__init__()
        self.inp = nn.Conv1d(sensors, channels, 1)
        self.filters = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2**k) for k in range(blocks)])
        self.gates = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2**k) for k in range(blocks)])
        self.out = nn.Linear(channels, sensors * horizon)
        self.shape = horizon, sensors

    def forward(self, x):
        h = self.inp(x.transpose(1, 2))
        for filter_, gate in zip(self.filters, self.gates):
            new = torch.tanh(filter_(h)) * torch.sigmoid(gate(h))
            h = new + h[..., -new.shape[-1] :]
        return self.out(h[..., -1]).view(-1, *self.shape)


class Forecaster:
    """fit() goes on until the mean loss has not improved for a while, and keeps the best state in a file."""

    def __init__(
        self, folder, channels=96, window=36, horizon=12, batch_size=48, lr=1e-3, smooth=25, check_every=2, keep="all", patience=400,
        min_delta=0.0, print_every=50,
    ):  # fmt: skip
        self.folder, self.window, self.horizon, self.batch_size = Path(folder), window, horizon, batch_size
        self.check_every, self.keep, self.patience, self.min_delta, self.print_every = check_every, keep, patience, min_delta, print_every
        self.channels, self.lr = channels, lr
        self.losses, self.best, self.since_best, self.saved = deque(maxlen=smooth), float("inf"), 0, 0

    def save(self):
        if self.keep == "weights":
            state = self.net.state_dict()
        else:
            state = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step}
            state.update(speeds=self.speeds, mean=self.mean, std=self.std)
        torch.save(state, self.folder / "best.part")
        os.replace(self.folder / "best.part", self.folder / "best.pt")
        self.saved += 1

    def batch(self):
        starts = torch.randint(0, len(self.speeds) - self.window - self.horizon, (self.batch_size, 1))
        rows = self.speeds[starts + torch.arange(self.window + self.horizon)]
        return rows.split([self.window, self.horizon], 1)

    def should_stop(self):
        mean = sum(self.losses) / len(self.losses)
        if mean < self.best - self.min_delta:
            self.best, self.since_best = mean, 0
            self.save()
        else:
            self.since_best += self.check_every
        return self.since_best > self.patience

    def fit(self, speeds, max_steps):
        speeds = torch.from_numpy(speeds)
        self.mean, self.std = speeds.mean(0), speeds.std(0)
        self.speeds = (speeds - self.mean) / self.std
        self.net = TCN(speeds.shape[1], self.channels, self.horizon)
        self.optimizer = torch.optim.Adam(self.net.parameters(), self.lr)
        meter = Meter(20, self.batch_size)
        for self.step in range(1, max_steps + 1):
            past, future = self.batch()
            loss = nn.functional.l1_loss(self.net(past), future)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())
            stop = self.step % self.check_every == 0 and self.should_stop()
            if self.step % self.print_every == 0:
                print(f"step {self.step} mae {sum(self.losses) / len(self.losses):.4f} best {self.best:.4f} saved {self.saved} times")
            meter.step()
            if stop:
                break
        meter.print()
        return self


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--sensors", type=int, default=200)
    ap.add_argument("--samples", type=int, default=30_000)
    ap.add_argument("--channels", type=int, default=96)
    ap.add_argument("--batch-size", type=int, default=48)
    ap.add_argument("--max-steps", type=int, default=220)
    ap.add_argument("--lr", type=float, default=2e-4)
    ap.add_argument("--check-every", type=int, default=2)
    ap.add_argument("--min-delta", type=float, default=0.0)
    ap.add_argument("--keep", choices=["all", "weights"], default="all")
    ap.add_argument("--print-every", type=int, default=50)
    args = ap.parse_args()
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory(dir=os.environ.get("ABROAD_DISK")) as folder:
        forecaster = Forecaster(
            folder, channels=args.channels, batch_size=args.batch_size, lr=args.lr, check_every=args.check_every, keep=args.keep,
            min_delta=args.min_delta, print_every=args.print_every,
        )  # fmt: skip
        forecaster.fit(make_speeds(args.sensors, args.samples), args.max_steps)
