# SPDX-License-Identifier: Apache-2.0
"""Arrival times of earthquakes: windows of raw seismograms, each in a random frequency band, detrended, filtered and resampled by SciPy."""

import argparse
from pathlib import Path

import numpy as np
import torch
from meter import Meter
from scipy import signal
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, SECONDS = 100, 40


class Windows(Dataset):
    def __init__(self, folder, one_pass=False):
        self.counts = np.load(folder / "counts.npy", mmap_mode="r")
        self.arrivals = np.load(folder / "arrivals.npy")
        self.one_pass = one_pass

    def __len__(self):
        return self.arrivals.size

    def __getitem__(self, index):
        station, number = divmod(index, self.arrivals.shape[1])
        pick = np.random.randint(5 * RATE, (SECONDS - 5) * RATE)
        start = max(self.arrivals[station, number] - pick, 0)
        wave = self.counts[station, :, start : start + SECONDS * RATE].astype(
            np.float64
        )
        wave = signal.detrend(wave, type="constant") * signal.windows.tukey(
            wave.shape[1], 0.05
        )
        band = np.random.uniform(0.5, 2), np.random.uniform(15, 24)
        sos = signal.butter(4, band, "bandpass", fs=RATE, output="sos")
        wave = (
            signal.sosfilt(sos, wave)
            if self.one_pass
            else signal.sosfiltfilt(sos, wave)
        )
        wave = signal.resample_poly(wave, 1, 2, axis=1)
        wave /= np.abs(wave).max(1, keepdims=True) + 1e-9
        at = np.arange(wave.shape[1])
        target = np.exp(
            -(((at - (self.arrivals[station, number] - start) / 2) / 10) ** 2)
        )
        return wave.astype(np.float32), target.astype(np.float32)


class Picker(nn.Module):
    def __init__(self, width):
        super().__init__()
        sizes = [3, width, 2 * width, 2 * width]
        self.down = nn.ModuleList(
            nn.Conv1d(a, b, 7, stride=4, padding=3) for a, b in zip(sizes, sizes[1:])
        )
        self.up = nn.ModuleList(
            nn.Conv1d(b, a, 7, padding=3) for a, b in zip(sizes, sizes[1:])
        )
        self.last = nn.Conv1d(6, 1, 1)

    def forward(self, wave):
        skips = []
        x = wave
        for layer in self.down:
            skips.append(x)
            x = torch.relu(layer(x))
        for layer, skip in zip(reversed(self.up), reversed(skips)):
            x = torch.relu(layer(nn.functional.interpolate(x, size=skip.shape[-1])))
        return self.last(torch.cat([x, wave], 1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument(
        "--one-pass", action="store_true", help="causal filter instead of zero phase"
    )
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    options = (
        {"prefetch_factor": args.prefetch_factor, "persistent_workers": True}
        if args.num_workers
        else {}
    )
    loader = DataLoader(
        Windows(args.data, args.one_pass),
        args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.num_workers,
        **options,
    )
    model = Picker(16)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    loss_of = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(20.0))
    meter = Meter(15, args.batch_size)
    for epoch in range(args.epochs):
        total = 0.0
        for wave, target in loader:
            loss = loss_of(model(wave), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            meter.step()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}")
    meter.print()


if __name__ == "__main__":
    main()
