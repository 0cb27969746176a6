# SPDX-License-Identifier: Apache-2.0
"""Tags of sound events from log-mel spectrograms: a spectrogram transformer with mixup, noise, and masks in time and frequency."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectrograms(Dataset):
    def __init__(self, count, frames, mels, tags):
        self.pool = np.random.default_rng(0).standard_normal((64, frames, mels), dtype=np.float32)
        self.count, self.tags = count, tags

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        tags = np.zeros(self.tags, np.float32)
        tags[[index % self.tags, index * 7 % self.tags]] = 1
        return self.pool[index % 64], tags


def collate(samples):
    sounds, tags = zip(*samples)
    return np.stack(sounds), np.stack(tags)


class NumpyAugment:
    """Mixup, gaussian noise, and masks as in SpecAugment."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)

    def __call__(self, sounds, tags):
        count, frames, mels = sounds.shape
        order, share = self.random.permutation(count), self.random.beta(10, 10, (count, 1, 1)).astype(np.float32)
        sounds = share * sounds + (1 - share) * sounds[order]
        tags = share[:, 0] * tags + (1 - share[:, 0]) * tags[order]
        sounds += 0.05 * self.random.standard_normal(sounds.shape, dtype=np.float32)
        for sound in sounds:
            for _ in range(2):
                at, width = self.random.integers(frames - 48), self.random.integers(8, 48)
                sound[at : at + width] = 0
                at, width = self.random.integers(mels - 24), self.random.integers(4, 24)
                sound[:, at : at + width] = 0
        return torch.from_numpy(sounds), torch.from_numpy(tags)


def device_augment(sounds, tags):
    """The same with the device's random numbers."""
    count, frames, mels = sounds.shape
    share = torch.rand(count, 1, 1, device=sounds.device) * 0.4 + 0.3
    sounds = torch.lerp(sounds.roll(1, 0), sounds, share)
    tags = torch.lerp(tags.roll(1, 0), tags, share[:, 0])
    sounds = sounds + 0.05 * torch.randn_like(sounds)
    for axis, length, longest in ((1, frames, 48), (2, mels, 24)):
        places = torch.arange(length, device=sounds.device)
        for _ in range(2):
            at = torch.rand(count, 1, device=sounds.device) * (length - longest)
            width = torch.rand(count, 1, device=sounds.device) * longest
            keep = ((places < at) | (places >= at + width)).float()
            sounds = sounds * (keep[:, :, None] if axis == 1 else keep[:, None])
    return sounds, tags


class CollateAugmented:
    def __init__(self):
        self.augment = None

    def __call__(self, samples):
        self.augment = self.augment or NumpyAugment(torch.initial_seed() % 2**32)
        return self.augment(*collate(samples))


class SpectrogramTransformer(nn.Module):
    def __init__(self, frames, mels, dim, depth, tags):
        super().__init__()
        self.patches = nn.Conv2d(1, dim, 16, 16)
        self.position = nn.Parameter(torch.zeros(1, frames // 16 * (mels // 16), dim))
        layer = nn.TransformerEncoderLayer(dim, dim // 64, 4 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, tags)

    def forward(self, sounds):
        x = self.patches(sounds[:, None]).flatten(2).transpose(1, 2) + self.position
        return self.head(self.encoder(x).mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--frames", type=int, default=512)
    parser.add_argument("--mels", type=int, default=128)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--tags", type=int, default=200)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--augment", choices=["host", "device", "workers"], default="host")
    parser.add_argument("--log-every", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(0)

    data = Spectrograms(args.steps * args.batch, args.frames, args.mels, args.tags)
    loader = DataLoader(
        data, args.batch, num_workers=args.workers, collate_fn=CollateAugmented() if args.augment == "workers" else None, pin_memory=True
    )  # fmt: skip
    model = SpectrogramTransformer(args.frames, args.mels, args.dim, args.depth, args.tags).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    augment = NumpyAugment()
    meter = Meter(20, args.batch, torch.cuda.synchronize)
    for step, (sounds, tags) in enumerate(loader):
        if args.augment == "host":
            sounds, tags = augment(sounds.numpy(), tags.numpy())
        sounds, tags = sounds.cuda(non_blocking=True), tags.cuda(non_blocking=True)
        if args.augment == "device":
            sounds, tags = device_augment(sounds, tags)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(sounds)
        loss = F.binary_cross_entropy_with_logits(logits.float(), tags)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"[{step}/{len(loader)}] BCE {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
