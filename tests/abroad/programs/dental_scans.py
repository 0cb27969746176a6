# SPDX-License-Identifier: Apache-2.0
"""Names the tooth that an intraoral scan shows: curvature at several scales on its triangle mesh, then a small PointNet. Some scans are whole jaws."""

import argparse
import time

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

KINDS = ["incisor", "canine", "premolar", "molar"]


class Archive:
    """The practice's archive of scans. It answers at the pace of its line: so many microseconds a vertex."""

    def __init__(self, count, us_per_vertex, seed=21):
        rng = np.random.default_rng(seed)
        self.kinds = rng.integers(0, len(KINDS), count)
        self.sides = np.where(rng.random(count) < 0.05, 175, 32)
        self.us_per_vertex = us_per_vertex

    def __len__(self):
        return len(self.kinds)

    def fetch(self, number):
        side, kind = int(self.sides[number]), int(self.kinds[number])
        time.sleep(side * side * self.us_per_vertex / 1e6)
        rng = np.random.default_rng(number)
        y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
        cusps = 1 + kind
        height = np.exp(-2 * (x**2 + y**2)) + 0.08 * np.cos(cusps * np.pi * x) * np.cos(cusps * np.pi * y) + rng.normal(0, 0.01, x.shape)
        vertices = np.stack([x, y, height], -1).reshape(-1, 3)
        corner = np.arange(side * side).reshape(side, side)
        a, b, c, d = (part.ravel() for part in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, :-1], corner[1:, 1:]))
        faces = np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)])
        return vertices, faces, kind


def add_up(places, values, count):
    return np.stack([np.bincount(places, values[:, axis], count) for axis in range(values.shape[1])], 1)


def vertex_normals(vertices, faces):
    a, b, c = (vertices[faces[:, corner]] for corner in range(3))
    area = np.cross(b - a, c - a)
    normals = sum(add_up(faces[:, corner], area, len(vertices)) for corner in range(3))
    return normals / np.linalg.norm(normals, axis=1, keepdims=True).clip(1e-9)


def curvatures(vertices, faces, normals, rounds, scales):
    """How far each vertex moves along its normal while the surface is smoothed, noted `scales` times."""
    start, end = faces.ravel(), np.roll(faces, 1, axis=1).ravel()
    degree = np.bincount(start, minlength=len(vertices))[:, None].clip(1)
    smooth, noted = vertices, []
    for number in range(1, rounds + 1):
        smooth = 0.5 * smooth + 0.5 * add_up(start, smooth[end], len(vertices)) / degree
        if number % (rounds // scales) == 0:
            noted.append(((vertices - smooth) * normals).sum(1))
    return np.stack(noted, 1)


class ToothScans(Dataset):
    def __init__(self, archive, points, rounds, scales=4):
        self.archive, self.points, self.rounds, self.scales = (archive, points, rounds, scales)

    def __len__(self):
        return len(self.archive)

    def __getitem__(self, number):
        vertices, faces, kind = self.archive.fetch(number)
        normals = vertex_normals(vertices, faces)
        features = np.concatenate([vertices, normals, 50 * curvatures(vertices, faces, normals, self.rounds, self.scales)], 1)
        chosen = np.random.default_rng(number).choice(len(vertices), self.points, replace=False)
        return torch.from_numpy(features[chosen].astype(np.float32)), kind


class PointNet(nn.Module):
    def __init__(self, inputs, width=64):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * width), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.3), nn.Linear(width, len(KINDS)))

    def forward(self, points):
        return self.head(self.each(points).amax(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=260)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--smoothing", type=int, default=16, help="rounds of smoothing")
    parser.add_argument("--line-us", type=float, default=6.0, help="the archive's time for a vertex")
    parser.add_argument("--num-workers", type=int, default=3)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--any-order", action="store_true", help="take batches as they come; runs are not repeatable then")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; the workers have the other cores")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(21)
    torch.set_num_threads(args.threads)

    scans = ToothScans(Archive(args.steps * args.batch_size, args.line_us), args.points, args.smoothing)
    loader = DataLoader(
        scans,
        args.batch_size,
        shuffle=True,
        num_workers=args.num_workers,
        prefetch_factor=args.prefetch_factor if args.num_workers else None,
        in_order=not args.any_order,
    )
    model = PointNet(6 + scans.scales)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=args.fused)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    meter = Meter(10, args.batch_size)
    right = seen = 0
    for step, (points, kinds) in enumerate(loader, 1):
        logits = model(points)
        loss = criterion(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (logits.argmax(1) == kinds).sum().item()
        seen += len(kinds)
        if step % args.log_every == 0:
            print(f"{step:4d}  loss {loss.item():.3f}  right {right / seen:.2f}")
            right = seen = 0
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
