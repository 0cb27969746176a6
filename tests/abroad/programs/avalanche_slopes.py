# SPDX-License-Identifier: Apache-2.0
"""Tells avalanche slopes from safe ones by the shape of the terrain. Elevation comes in tiles from a tile server on this machine."""

import argparse
import multiprocessing
import socket
import socketserver
import time
from dataclasses import dataclass

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 80
SUNS = [(azimuth, height) for azimuth in (45, 135, 225, 315) for height in (15, 30, 45, 60)]


class TileServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, delay_s, tiles=64):
        super().__init__(("127.0.0.1", 0), TileRequests)
        rng = np.random.default_rng(11)
        rough = rng.standard_normal((tiles, SIDE, SIDE)).cumsum(1).cumsum(2)
        self.tiles = [tile.tobytes() for tile in (1500 + rng.uniform(0.2, 1.5, (tiles, 1, 1)) * rough).astype(np.float32)]
        self.delay_s = delay_s


class TileRequests(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            time.sleep(self.server.delay_s)
            self.wfile.write(self.server.tiles[int(line) % len(self.server.tiles)])


class TileClient:
    """One connection, opened when the first tile is wanted."""

    def __init__(self, address):
        self.address, self.stream = address, None

    def tile(self, number):
        if self.stream is None:
            self.stream = socket.create_connection(self.address).makefile("rwb")
        self.stream.write(b"%d\n" % number)
        self.stream.flush()
        return np.frombuffer(self.stream.read(4 * SIDE * SIDE), np.float32).reshape(SIDE, SIDE)


def terrain_layers(elevation, spacing=10.0):
    """Slope, aspect, curvature, ruggedness and the light of the sun through the day."""
    down, right = np.gradient(elevation.astype(np.float64), spacing)
    slope, aspect = np.arctan(np.hypot(down, right)), np.arctan2(down, -right)
    curvature = np.gradient(down, spacing, axis=0) + np.gradient(right, spacing, axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(elevation, 2, mode="edge"), (5, 5))
    ruggedness = windows.std((-2, -1))
    light = np.zeros_like(slope)
    for azimuth, height in np.radians(SUNS):
        light += np.clip(np.sin(height) * np.cos(slope) + np.cos(height) * np.sin(slope) * np.cos(azimuth - aspect), 0, None)
    return np.stack([slope, np.sin(aspect), np.cos(aspect), 10 * curvature, ruggedness / 20, light / len(SUNS)]).astype(np.float32)


class Slopes(Dataset):
    def __init__(self, client, count):
        self.client = client
        self.tiles = np.random.default_rng(12).integers(0, 100_000, count)

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, index):
        layers = terrain_layers(self.client.tile(self.tiles[index]))
        steep = float(((layers[0] > np.radians(30)) & (layers[0] < np.radians(50))).mean())
        return {"tile": int(self.tiles[index]), "layers": layers, "risky": steep > 0.25}


def collate(samples):
    layers = torch.from_numpy(np.stack([sample["layers"] for sample in samples]))
    flip = torch.rand(()) < 0.5
    return {
        "layers": layers.flip(-1) if flip else layers,
        "risky": torch.tensor([sample["risky"] for sample in samples], dtype=torch.float32),
        "tiles": [sample["tile"] for sample in samples],
    }


def make_model(width=12):
    def block(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *block(6, width), *block(width, 2 * width), *block(2 * width, 2 * width), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 1)
    )


@dataclass
class Settings:
    batch_size: int
    workers: int
    prefetch: int
    fused: bool
    log_every: int
    lr: float


class Trainer:
    def __init__(self, model, dataset, settings):
        self.model, self.settings = model, settings
        extra = {"prefetch_factor": settings.prefetch} if settings.workers else {}
        self.loader = DataLoader(dataset, settings.batch_size, shuffle=True, collate_fn=collate, drop_last=True, num_workers=settings.workers, **extra)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr, fused=settings.fused)
        self.loss_of = nn.BCEWithLogitsLoss()
        self.meter = Meter(8, settings.batch_size)
        self.step = 0

    def train_step(self, batch):
        loss = self.loss_of(self.model(batch["layers"]).squeeze(1), batch["risky"])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self):
        self.model.train()
        for batch in self.loader:
            loss = self.train_step(batch)
            self.step += 1
            if self.step % self.settings.log_every == 0:
                print(f"step {self.step}: loss {loss:.3f}, {sum(batch['risky']):.0f} of {len(batch['tiles'])} risky")
            self.meter.step()
        self.meter.print()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--torch-threads", type=int, default=1, help="for the network, which is small")
    parser.add_argument("--tile-delay-ms", type=float, default=7.0)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(11)
    torch.set_num_threads(args.torch_threads)
    with TileServer(args.tile_delay_ms / 1e3) as server:
        process = multiprocessing.Process(target=server.serve_forever, daemon=True)
        process.start()
        slopes = Slopes(TileClient(server.server_address), args.steps * args.batch_size)
        Trainer(make_model(), slopes, Settings(args.batch_size, args.workers, args.prefetch, args.fused, args.log_every, args.lr)).fit()
        process.terminate()
        process.join()


if __name__ == "__main__":
    main()
