# SPDX-License-Identifier: Apache-2.0
"""Travel time of taxi rides from their GPS points. The collate function was written when a point was a Python tuple: it pads lists."""

import argparse
import random

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Rides(Dataset):
    """A ride: points of (east, north, speed, sine and cosine of the heading), and the minutes that it took."""

    def __init__(self, count=4000):
        generator = np.random.default_rng(0)
        self.rides = []
        for length in generator.integers(120, 480, count):
            turn = np.cumsum(generator.normal(0, 0.2, length))
            speed = np.abs(generator.normal(9, 3, length))
            east, north = np.cumsum(speed * np.cos(turn)), np.cumsum(speed * np.sin(turn))
            points = np.stack([east / 1e3, north / 1e3, speed / 10, np.sin(turn), np.cos(turn)], 1)
            self.rides.append((points.astype(np.float32), length / 60))

    def __len__(self):
        return len(self.rides)

    def __getitem__(self, index):
        return self.rides[index]


def collate_lists(samples):
    longest = max(len(points) for points, _ in samples)
    padded, masks, minutes = [], [], []
    for points, duration in samples:
        row = [[float(value) for value in point] for point in points]
        mask = [1.0] * len(row)
        while len(row) < longest:
            row.append([0.0] * 5)
            mask.append(0.0)
        padded.append(row)
        masks.append(mask)
        minutes.append(duration)
    return torch.tensor(padded), torch.tensor(masks), torch.tensor(minutes)


def collate_arrays(samples):
    points = [torch.from_numpy(points) for points, _ in samples]
    lengths = torch.tensor([len(each) for each in points])
    padded = pad_sequence(points, batch_first=True)
    mask = (torch.arange(padded.shape[1]) < lengths[:, None]).float()
    return padded, mask, torch.tensor([minutes for _, minutes in samples])


class BatchesOfSimilarLength:
    """Shuffles, sorts chunks of 20 batches by length, cuts them into batches."""

    def __init__(self, lengths, size):
        self.lengths, self.size = lengths, size

    def __len__(self):
        return len(self.lengths) // self.size

    def __iter__(self):
        order = random.sample(range(len(self.lengths)), len(self.lengths))
        for start in range(0, len(order), 20 * self.size):
            chunk = sorted(order[start : start + 20 * self.size], key=self.lengths.__getitem__)
            batches = [chunk[at : at + self.size] for at in range(0, len(chunk) - self.size + 1, self.size)]
            yield from random.sample(batches, len(batches))


class Regressor(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(5, width, 9, 4, 4), nn.ReLU(), nn.Conv1d(width, width, 5, 4, 2), nn.ReLU())
        self.head = nn.Linear(width, 1)

    def forward(self, points, mask):
        x = self.net((points * mask.unsqueeze(-1)).transpose(1, 2))
        return self.head(x.sum(2) / mask.sum(1, keepdim=True) * 16).squeeze(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--collate", choices=["lists", "arrays"], default="lists")
    parser.add_argument("--bucket", action="store_true", help="batches of similar length")
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    rides = Rides()
    options = {"num_workers": args.num_workers, "collate_fn": collate_lists if args.collate == "lists" else collate_arrays}
    if args.num_workers:
        options |= {"prefetch_factor": args.prefetch_factor, "persistent_workers": True}
    if args.bucket:
        options["batch_sampler"] = BatchesOfSimilarLength([len(points) for points, _ in rides.rides], args.batch_size)
    else:
        options |= {"batch_size": args.batch_size, "shuffle": True, "drop_last": True}
    loader, model = DataLoader(rides, **options), Regressor()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    meter = Meter(20, args.batch_size)
    for epoch in range(args.epochs):
        for points, mask, minutes in loader:
            loss = nn.functional.smooth_l1_loss(model(points, mask), minutes.float())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            meter.step()
        print(f"epoch {epoch + 1}/{args.epochs}, last loss {loss.item():.4f}")
    meter.print()
