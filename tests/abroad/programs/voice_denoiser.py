# SPDX-License-Identifier: Apache-2.0
"""Denoising of speech: a convolutional network on waveforms; noise is mixed in by the dataset, torchmetrics keeps the books."""

import argparse

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric
from torchmetrics.audio import ScaleInvariantSignalNoiseRatio

LENGTH = 8192


class NoisySpeech(Dataset):
    def __init__(self, seconds=400, rate=16000):
        rng = np.random.default_rng(8)
        time = np.arange(seconds * rate, dtype=np.float32) / rate
        pitch = 120 + 40 * np.sin(time * 2.3)
        voice = np.sin(np.cumsum(pitch) * (2 * np.pi / rate)) * (0.5 + 0.5 * np.sin(time * 11))
        self.clean = (8000 * voice).astype(np.int16)
        self.noise = (4000 * rng.standard_normal(60 * rate, dtype=np.float32)).clip(-32000, 32000).astype(np.int16)

    def __len__(self):
        return len(self.clean) // LENGTH

    def __getitem__(self, index):
        clean = torch.from_numpy(self.clean[index * LENGTH :][:LENGTH]).float() / 32768
        start = int(torch.randint(len(self.noise) - LENGTH, (1,)))
        noise = torch.from_numpy(self.noise[start : start + LENGTH]).float() / 32768
        return (clean + noise * 10 ** torch.empty(1).uniform_(-1, 0.2)).unsqueeze(0), clean.unsqueeze(0)


class GatedBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, 2 * width, 3, dilation=dilation, padding=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return x + self.mix(nn.functional.glu(self.conv(x), 1))


class Denoiser(nn.Module):
    def __init__(self, width=48, blocks=6):
        super().__init__()
        self.encode = nn.Conv1d(1, width, 16, stride=8, padding=4)
        self.blocks = nn.Sequential(*[GatedBlock(width, 2**number) for number in range(blocks)])
        self.decode = nn.ConvTranspose1d(width, 1, 16, stride=8, padding=4)

    def forward(self, wave):
        return self.decode(self.blocks(self.encode(wave)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--print-every", type=int, default=25)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(8)
    loader = DataLoader(
        NoisySpeech(),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.num_workers,
        prefetch_factor=args.prefetch_factor if args.num_workers else None,
        persistent_workers=args.num_workers > 0,
    )
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    mean_loss, snr = MeanMetric(), ScaleInvariantSignalNoiseRatio()
    meter = Meter(10, args.batch_size)
    step = 0
    for epoch in range(args.epochs):
        for noisy, clean in loader:
            restored = model(noisy)
            loss = (restored - clean).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            mean_loss.update(loss.detach())
            step += 1
            if step % args.print_every == 0:
                snr.update(restored.detach(), clean)
                print(f"[{epoch}:{step}] l1 {mean_loss.compute():.5f} si-snr {snr.compute():.2f} dB")
                mean_loss.reset()
                snr.reset()
            meter.step()
    meter.print()


if __name__ == "__main__":
    main()
