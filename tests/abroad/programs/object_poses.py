# SPDX-License-Identifier: Apache-2.0
"""Rotation of a machine part from a depth camera, trained on rendered depth maps only. An epoch is as long as we say."""

import argparse

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


def gram_schmidt(six):
    """Zhou et al., 2019: six numbers to a rotation."""
    first = nn.functional.normalize(six[:, :3], dim=1)
    second = nn.functional.normalize(six[:, 3:] - (first * six[:, 3:]).sum(1, keepdim=True) * first, dim=1)
    return torch.stack([first, second, torch.linalg.cross(first, second)], 2)


class Renderer:
    """Splats the points of a surface that is sampled evenly."""

    def __init__(self, points, size, candidates=6_000):
        rng = np.random.default_rng(6)
        eta, omega = rng.uniform(-np.pi / 2, np.pi / 2, candidates), rng.uniform(-np.pi, np.pi, candidates)

        def power(values, exponent):
            return np.sign(values) * np.abs(values) ** exponent

        body = np.stack([power(np.cos(eta), 0.3) * power(np.cos(omega), 0.6), 0.7 * power(np.cos(eta), 0.3) * power(np.sin(omega), 0.6), 0.4 * power(np.sin(eta), 0.3)], 1)
        flange = body[:, [2, 0, 1]] * [0.8, 0.5, 1.2] + [0.5, 0.3, 0.2]
        self.points, self.size = self.evenly(np.concatenate([body, flange]).astype(np.float32), points), size

    @staticmethod
    def evenly(surface, count):
        """Farthest points, one after the other."""
        chosen = np.zeros(count, np.int64)
        distance = np.full(len(surface), np.inf, np.float32)
        for number in range(1, count):
            distance = np.minimum(distance, np.square(surface - surface[chosen[number - 1]]).sum(1))
            chosen[number] = distance.argmax()
        return surface[chosen]

    def depth(self, rotation, rng):
        x, y, z = (self.points @ rotation.T).T
        z = z + 4
        column, row = ((x / z + 0.5) * self.size).astype(np.int64), ((y / z + 0.5) * self.size).astype(np.int64)
        image = np.full((self.size, self.size), 6.0, np.float32)
        inside = (column >= 0) & (column < self.size) & (row >= 0) & (row < self.size)
        np.minimum.at(image, (row[inside], column[inside]), z[inside].astype(np.float32))
        image += rng.normal(0, 0.01, image.shape).astype(np.float32)
        image[rng.random(image.shape) < 0.02] = 0
        return image


class Rendered(Dataset):
    def __init__(self, length, points, size, seed=None):
        self.length, self.points, self.size, self.seed = length, points, size, seed
        self.renderer = None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.renderer is None:
            self.renderer = Renderer(self.points, self.size)
        rng = np.random.default_rng(int(torch.randint(2**62, ())) if self.seed is None else [self.seed, index])
        rotation, upper = np.linalg.qr(rng.normal(size=(3, 3)))
        rotation = rotation * np.sign(np.diag(upper))
        rotation[:, 2] *= np.linalg.det(rotation)
        depth = self.renderer.depth(rotation.astype(np.float32), rng)
        return torch.from_numpy(depth)[None] - 4, torch.from_numpy(rotation).float()


class PoseNet(nn.Sequential):
    def __init__(self, width):
        widths, layers = [1, width, 2 * width, 4 * width, 4 * width], []
        for inputs, outputs in zip(widths, widths[1:]):
            layers += [nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.GroupNorm(4, outputs), nn.SiLU()]
            layers += [nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(4, outputs), nn.SiLU()]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16 * width, 6))


def geodesic(estimate, truth):
    cosine = ((estimate.transpose(1, 2) @ truth).diagonal(dim1=1, dim2=2).sum(1) - 1) / 2
    return torch.rad2deg(torch.acos(cosine.clamp(-0.9999, 0.9999)))


@torch.no_grad()
def validate(net, batches):
    net.eval()
    errors = torch.cat([geodesic(gram_schmidt(net(depth)), rotation) for depth, rotation in batches])
    net.train()
    return errors.median().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epoch-size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=352)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--persistent-workers", action="store_true")
    parser.add_argument("--validate-every", type=int, default=1, metavar="EPOCHS")
    args = parser.parse_args()
    torch.manual_seed(6)

    options = {"prefetch_factor": args.prefetch_factor, "persistent_workers": args.persistent_workers} if args.num_workers else {}
    loader = DataLoader(Rendered(args.epoch_size, args.points, args.size), args.batch_size, shuffle=True, drop_last=True, num_workers=args.num_workers, **options)
    held_out = list(DataLoader(Rendered(128, args.points, args.size, seed=1), 32))
    net = PoseNet(args.width)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    meter, step, epoch = Meter(16, args.batch_size), 0, 0
    while step < args.steps:
        for depth, rotation in loader:
            loss = (gram_schmidt(net(depth)) - rotation).square().sum((1, 2)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            meter.step()
            if step == args.steps:
                break
        epoch += 1
        if epoch % args.validate_every == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}, median error {validate(net, held_out):.1f} degrees")
    meter.print()


if __name__ == "__main__":
    main()
