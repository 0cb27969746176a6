# SPDX-License-Identifier: Apache-2.0
"""Federated averaging, simulated: in each round every hospital trains a copy of the model on its own scans, with a loader of its own."""

import argparse
import copy

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    """One hospital's scans: a bias field is taken out, and the contrast stretched, when a scan is read."""

    def __init__(self, hospital, count, size):
        random = np.random.default_rng(hospital)
        self.scans = random.integers(0, 4096, (count, size, size), dtype=np.uint16)
        self.labels = random.integers(0, 2, count)

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, index):
        scan = self.scans[index].astype(np.float32)
        spectrum = np.fft.rfft2(scan)
        spectrum[:2, :2] = 0
        flat = np.fft.irfft2(spectrum, scan.shape)
        low, high = np.percentile(flat[::2, ::2], (1, 99))
        scan = np.clip((flat - low) / (high - low), 0, 1).astype(np.float32)
        return torch.from_numpy(scan[::2, ::2].copy())[None], self.labels[index]


def loader_of(scans, args):
    extra = (
        {
            "persistent_workers": args.keep_loaders,
            "prefetch_factor": args.prefetch_factor,
        }
        if args.num_workers
        else {}
    )
    return DataLoader(
        scans,
        args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.num_workers,
        **extra,
    )


def train_locally(model, loader, args, meter):
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    for scans, labels in loader:
        loss = F.cross_entropy(model(scans), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
    return loss.item()


def average(states):
    return {
        name: torch.stack([state[name].float() for state in states])
        .mean(0)
        .to(states[0][name].dtype)
        for name in states[0]
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hospitals", type=int, default=5)
    parser.add_argument("--scans", type=int, default=192, help="of each hospital")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument(
        "--keep-loaders",
        action="store_true",
        help="keep each hospital's loader and its workers from round to round",
    )
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core is the loader's
    hospitals = [
        Scans(number, args.scans, args.size) for number in range(args.hospitals)
    ]
    loaders = (
        [loader_of(scans, args) for scans in hospitals] if args.keep_loaders else None
    )
    width = args.width
    server = nn.Sequential(
        nn.Conv2d(1, width, 3, 2, 1), nn.GroupNorm(4, width), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 1, 1), nn.GroupNorm(4, 2 * width), nn.ReLU(),
        nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 2),
    )  # fmt: skip
    meter = Meter(args.hospitals * (args.scans // args.batch_size), args.batch_size)
    for turn in range(args.rounds):
        states, losses = [], []
        for number, scans in enumerate(hospitals):
            local = copy.deepcopy(server)
            loader = loaders[number] if loaders else loader_of(scans, args)
            losses.append(train_locally(local, loader, args, meter))
            states.append(local.state_dict())
        server.load_state_dict(average(states))
        print(f"round {turn}: loss {sum(losses) / len(losses):.4f}")
    meter.print()


if __name__ == "__main__":
    main()
