# SPDX-License-Identifier: Apache-2.0
"""Finds radio sources: an interferometer's visibilities become a dirty image, all channels in one, and a U-shaped net marks the sources."""

import argparse
from functools import partial

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from meter import Meter
from torch.utils.data import DataLoader, Dataset


class Observations(Dataset):
    """Simulated snapshots of an array of `antennas`: `channels` frequencies make one image of `pixels` x `pixels`."""

    def __init__(self, count, antennas, channels, pixels, passes=3):
        rng = np.random.default_rng(1420)
        self.count, self.pixels, self.passes = count, pixels, passes
        places = torch.from_numpy(rng.normal(0, 300, (antennas, 2)).astype(np.float32))
        first, second = np.triu_indices(antennas, 1)
        self.baselines = places[first] - places[second]
        self.wavelengths = torch.linspace(0.20, 0.24, channels)
        self.axis = 2 * torch.pi * torch.linspace(-2e-2, 2e-2, pixels)

    def __len__(self):
        return self.count

    def phases(self, hour_angle):
        """Kernels of the separable Fourier transform: a row for each baseline and channel."""
        c, s = np.cos(hour_angle), np.sin(hour_angle)
        metres = self.baselines @ torch.tensor([[c, s], [-s, c]], dtype=torch.float32)
        uv = (metres / self.wavelengths[:, None, None]).reshape(-1, 2)
        angles = uv.T[:, :, None] * self.axis
        return torch.complex(angles.cos(), angles.sin())

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        sky = torch.zeros(self.pixels, self.pixels)
        for _ in range(rng.integers(3, 9)):
            sky[tuple(rng.integers(4, self.pixels - 4, 2))] = float(rng.exponential(1.0) + 0.2)
        east, north = self.phases(rng.uniform(-1, 1))
        visibilities = ((north.conj() @ sky.to(torch.complex64)) * east.conj()).sum(1)
        noise = rng.normal(0, 0.3, (len(visibilities), 2)).astype(np.float32)
        visibilities += torch.view_as_complex(torch.from_numpy(noise))
        beam = (north.T @ east).real / len(visibilities)
        weights, images = torch.ones(len(visibilities)), [beam]
        for _ in range(self.passes):
            dirty = ((north * (weights * visibilities)[:, None]).T @ east).real / weights.sum()
            images.append(dirty / dirty.std())
            model = ((north.conj() @ dirty.clamp(min=0).to(torch.complex64)) * east.conj()).sum(1)
            weights = 1 / (1 + (visibilities - model / model.abs().mean()).abs())
        return torch.stack(images), (sky > 0).float()


class Finder(nn.Module):
    def __init__(self, channels, width=12):
        super().__init__()
        self.down1, self.down2 = (nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, stride=2, padding=1))
        self.middle = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out = nn.Conv2d(2 * width, 1, 3, padding=1)

    def forward(self, x):
        fine = F.relu(self.down1(x))
        coarse = F.relu(self.middle(F.relu(self.down2(fine))))
        return self.out(torch.cat([fine, F.relu(self.up(coarse))], 1)).squeeze(1)


def set_threads(worker, threads):
    torch.set_num_threads(threads)


def get_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--antennas", type=int, default=40)
    parser.add_argument("--channels", type=int, default=4)
    parser.add_argument("--pixels", type=int, default=64)
    parser.add_argument("--num-workers", type=int, default=3)
    parser.add_argument("--threads-per-worker", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--print-every", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    return parser.parse_args()


def train(args):
    torch.manual_seed(1420)
    torch.set_num_threads(args.threads)
    data = Observations(args.steps * args.batch_size, args.antennas, args.channels, args.pixels)
    options = {"prefetch_factor": args.prefetch_factor, "worker_init_fn": partial(set_threads, threads=args.threads_per_worker)} if args.num_workers else {}
    loader = DataLoader(data, batch_size=args.batch_size, num_workers=args.num_workers, **options)
    finder = Finder(channels=1 + data.passes)
    optimizer = torch.optim.Adam(finder.parameters(), lr=args.learning_rate)
    weight = torch.tensor(200.0)
    meter = Meter(10, args.batch_size)
    for step, (images, sources) in enumerate(loader):
        loss = F.binary_cross_entropy_with_logits(finder(images), sources, pos_weight=weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.print_every == 0:
            print(f"step {step}: loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    train(get_args())
