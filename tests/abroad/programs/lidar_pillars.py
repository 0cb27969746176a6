# SPDX-License-Identifier: Apache-2.0
"""Cars in lidar scans: points are sorted into pillars, and a convolutional network looks at them from above."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

RANGE = (0.0, 51.2, -25.6, 25.6)


class Scans(Dataset):
    def __init__(self, count, points, cell, max_pillars, max_points, files=24):
        random = np.random.default_rng(0)
        self.scans = []
        for _ in range(files):
            distance, angle = random.gamma(2.0, 9.0, points), random.uniform(-0.9, 0.9, points)
            scan = np.stack([distance * np.cos(angle), distance * np.sin(angle), random.normal(-1, 0.5, points), random.random(points)], 1)
            self.scans.append(scan.astype(np.float32))
        self.count, self.cell, self.max_pillars, self.max_points = count, cell, max_pillars, max_points
        self.grid = (int((RANGE[1] - RANGE[0]) / cell), int((RANGE[3] - RANGE[2]) / cell))

    def __len__(self):
        return self.count

    def augment(self, scan, random):
        turn, scale = random.uniform(-np.pi / 8, np.pi / 8), random.uniform(0.95, 1.05)
        matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]], np.float32)
        scan = scan.copy()
        scan[:, :2] = scan[:, :2] @ matrix.T
        scan[:, :3] *= scale
        if random.random() < 0.5:
            scan[:, 1] *= -1
        return scan[random.permutation(len(scan))]

    def pillars(self, scan):
        inside = (scan[:, 0] >= RANGE[0]) & (scan[:, 0] < RANGE[1]) & (scan[:, 1] >= RANGE[2]) & (scan[:, 1] < RANGE[3])
        scan = scan[inside]
        cells = ((scan[:, :2] - [RANGE[0], RANGE[2]]) / self.cell).astype(np.int64)
        flat = cells[:, 0] * self.grid[1] + cells[:, 1]
        order = np.argsort(flat, kind="stable")
        scan, flat = scan[order], flat[order]
        cell, first, counts = np.unique(flat, return_index=True, return_counts=True)
        place = np.arange(len(flat)) - np.repeat(first, counts)
        pillar = np.repeat(np.arange(len(cell)), counts)
        kept = (place < self.max_points) & (pillar < self.max_pillars)
        sums = np.zeros((len(cell), 3), np.float32)
        np.add.at(sums, pillar, scan[:, :3])
        offsets = scan[:, :3] - (sums / counts[:, None])[pillar]
        centers = np.stack([flat // self.grid[1], flat % self.grid[1]], 1) * self.cell + [RANGE[0], RANGE[2]]
        features = np.concatenate([scan, offsets, scan[:, :2] - centers], 1).astype(np.float32)
        table = np.zeros((self.max_pillars, self.max_points, 9), np.float32)
        table[pillar[kept], place[kept]] = features[kept]
        where = np.zeros(self.max_pillars, np.int64)
        where[: min(len(cell), self.max_pillars)] = cell[: self.max_pillars]
        return table, where

    def __getitem__(self, index):
        random = np.random.default_rng(index)
        table, where = self.pillars(self.augment(self.scans[index % len(self.scans)], random))
        heat = np.zeros((self.grid[0] // 2, self.grid[1] // 2), np.float32)
        heat[random.integers(0, heat.shape[0], 12), random.integers(0, heat.shape[1], 12)] = 1
        return torch.from_numpy(table), torch.from_numpy(where), torch.from_numpy(heat)


class PointPillars(nn.Module):
    def __init__(self, grid, width):
        super().__init__()
        self.grid, self.width = grid, width
        self.point, self.norm = nn.Linear(9, width, bias=False), nn.BatchNorm1d(width)

        def stage(inputs, outputs, depth):
            layers = [nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            for _ in range(depth):
                layers += [nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            return nn.Sequential(*layers)

        self.stages = nn.ModuleList([stage(width, width, 3), stage(width, 2 * width, 4)])
        self.ups = nn.ModuleList([nn.ConvTranspose2d(width, width, 1), nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.heat, self.box = nn.Conv2d(2 * width, 1, 1), nn.Conv2d(2 * width, 7, 1)

    def forward(self, table, where):
        batch = len(table)
        points = F.relu(self.norm(self.point(table).flatten(0, 2)).view(*table.shape[:3], self.width)).amax(2)
        canvas = points.new_zeros(batch, self.grid[0] * self.grid[1], self.width)
        canvas = canvas.scatter(1, where[..., None].expand_as(points), points)
        features, outputs = canvas.transpose(1, 2).unflatten(2, self.grid), []
        for stage, up in zip(self.stages, self.ups):
            features = stage(features)
            outputs.append(up(features))
        features = torch.cat(outputs, 1)
        return self.heat(features).squeeze(1), self.box(features)


def focal(logits, heat):
    chance = logits.sigmoid()
    return -(heat * (1 - chance) ** 2 * F.logsigmoid(logits) + (1 - heat) * chance**2 * F.logsigmoid(-logits)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--points", type=int, default=16000)
    parser.add_argument("--cell", type=float, default=0.2)
    parser.add_argument("--max-pillars", type=int, default=3000)
    parser.add_argument("--max-points", type=int, default=12)
    parser.add_argument("--width", type=int, default=80)
    parser.add_argument("--iterations", type=int, default=240)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)

    scans = Scans(args.iterations * args.batch_size, args.points, args.cell, args.max_pillars, args.max_points)
    loader = DataLoader(scans, args.batch_size, shuffle=True, num_workers=args.num_workers, pin_memory=True, prefetch_factor=args.prefetch_factor if args.num_workers else None)
    model = PointPillars(scans.grid, args.width).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01, fused=args.fused or None)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=len(loader))
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    meter = Meter(15, args.batch_size, torch.cuda.synchronize)
    for iteration, batch in enumerate(loader):
        table, where, heat = (part.cuda(non_blocking=True) for part in batch)
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            logits, boxes = model(table, where)
        loss = focal(logits.float(), heat) + 0.1 * (boxes.float().abs() * heat[:, None]).mean()
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        if iteration % args.log_every == 0:
            print(f"{iteration}/{len(loader)} loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
