# SPDX-License-Identifier: Apache-2.0
"""Audio tagging: FLAC files are decoded and turned into log-mel spectrograms in the dataset."""

import argparse
from pathlib import Path

import soundfile
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


def log_mel(wave, filters, window):
    spectrum = torch.stft(wave, 1024, 160, window=window, return_complex=True).abs().square()
    return torch.log(filters @ spectrum + 1e-6)


class Clips(Dataset):
    def __init__(self, folder, cache):
        self.files, self.cache = sorted(Path(folder).glob("*.flac")), {} if cache else None
        self.filters, self.window = torch.rand(64, 513, generator=torch.Generator().manual_seed(0)), torch.hann_window(1024)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        if self.cache is not None and index in self.cache:
            return self.cache[index], index % 10
        wave, _ = soundfile.read(self.files[index], dtype="float32")
        features = log_mel(torch.from_numpy(wave), self.filters, self.window)
        if self.cache is not None:
            self.cache[index] = features
        return features, index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clips", required=True)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--cache-features", action="store_true")
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Clips(args.clips, args.cache_features), args.batch_size, shuffle=True, num_workers=args.num_workers, persistent_workers=args.num_workers > 0)
    model = nn.Sequential(nn.Conv1d(64, 64, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    meter = Meter(len(loader), args.batch_size)
    for epoch in range(args.epochs):
        for features, tags in loader:
            loss = F.cross_entropy(model(features), tags)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    meter.print()


if __name__ == "__main__":
    main()
