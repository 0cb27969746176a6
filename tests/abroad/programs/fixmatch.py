# SPDX-License-Identifier: Apache-2.0
"""FixMatch: few labelled pictures of 96 x 96, many without labels, in a weak and a strong version each; pseudo-labels above a threshold."""

import argparse
import random

import numpy as np
import torch
from meter import Meter
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler


def to_tensor(image):
    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).astype(np.float32) / 127.5 - 1)


def weak(image):
    if random.random() < 0.5:
        image = ImageOps.mirror(image)
    dx, dy = random.randint(-8, 8), random.randint(-8, 8)
    return image.transform(image.size, Image.Transform.AFFINE, (1, 0, dx, 0, 1, dy))


STRONG = [
    lambda image: image.rotate(random.uniform(-30, 30), Image.Resampling.BICUBIC),
    lambda image: ImageEnhance.Color(image).enhance(random.uniform(0.1, 1.9)),
    lambda image: ImageEnhance.Sharpness(image).enhance(random.uniform(0.1, 1.9)),
    lambda image: ImageOps.autocontrast(image),
    lambda image: ImageOps.equalize(image),
    lambda image: ImageOps.solarize(image, random.randint(64, 255)),
    lambda image: image.filter(ImageFilter.GaussianBlur(random.uniform(0.5, 2))),
    lambda image: image.transform(image.size, Image.Transform.AFFINE, (1, random.uniform(-0.3, 0.3), 0, 0, 1, 0), Image.Resampling.BICUBIC),
]


def strong(image, count):
    image = weak(image)
    for change in random.sample(STRONG, count):
        image = change(image)
    return image


def make_pictures(count, seed):
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 255, (count, 12, 12, 3), dtype=np.uint8)
    return [Image.fromarray(picture).resize((96, 96), Image.Resampling.BICUBIC) for picture in small], rng.integers(0, 10, count)


class Labelled(Dataset):
    def __init__(self, count):
        self.pictures, self.labels = make_pictures(count, 0)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        return to_tensor(weak(self.pictures[index])), int(self.labels[index])


class Unlabelled(Dataset):
    def __init__(self, count, changes):
        self.pictures, _ = make_pictures(count, 1)
        self.changes = changes

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        picture = self.pictures[index]
        return to_tensor(weak(picture)), to_tensor(strong(picture, self.changes))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm_a, self.norm_b = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        out = F.leaky_relu(self.norm_a(x), 0.1)
        return self.skip(out) + self.b(F.leaky_relu(self.norm_b(self.a(out)), 0.1))


class FixMatch:
    def __init__(self, args):
        self.args = args
        width = args.width
        self.model = nn.Sequential(
            nn.Conv2d(3, width, 5, 4, 2, bias=False), Residual(width, width, 1), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10),
        )  # fmt: skip
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.03, momentum=0.9, nesterov=True)
        self.meter = Meter(6, args.batch_size)
        labelled, unlabelled = Labelled(200), Unlabelled(1200, args.changes)
        self.labelled = self.loader(labelled, args.batch_size, args.num_workers)
        self.unlabelled = self.loader(unlabelled, args.batch_size * args.mu, args.unlabelled_workers)

    def loader(self, data, batch_size, workers):
        sampler = RandomSampler(data, replacement=True, num_samples=self.args.steps * batch_size)
        factor = self.args.prefetch_factor if workers else None
        return DataLoader(data, batch_size, sampler=sampler, num_workers=workers, prefetch_factor=factor, drop_last=True)

    def losses(self, x, y, u_weak, u_strong):
        logits = self.model(torch.cat([x, u_weak, u_strong]))
        labelled, (on_weak, on_strong) = logits[: len(x)], logits[len(x) :].chunk(2)
        confidence, pseudo = on_weak.detach().softmax(1).max(1)
        mask = (confidence > self.args.threshold).float()
        return F.cross_entropy(labelled, y), (F.cross_entropy(on_strong, pseudo, reduction="none") * mask).mean(), mask.mean()

    def fit(self):
        for step, ((x, y), (u_weak, u_strong)) in enumerate(zip(self.labelled, self.unlabelled), 1):
            supervised, unsupervised, used = self.losses(x, y, u_weak, u_strong)
            self.optimizer.zero_grad(set_to_none=True)
            (supervised + unsupervised).backward()
            self.optimizer.step()
            if step % self.args.log_every == 0:
                print(f"{step:4d} Lx {supervised.item():.3f} Lu {unsupervised.item():.3f} mask {used.item():.2f}")
            self.meter.step()
        self.meter.print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--unlabelled-workers", type=int, default=0)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--mu", type=int, default=7, help="pictures without a label for each that has one")
    parser.add_argument("--changes", type=int, default=3, help="of a strong version")
    parser.add_argument("--threshold", type=float, default=0.6)
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    random.seed(0)
    torch.manual_seed(0)
    FixMatch(args).fit()


if __name__ == "__main__":
    main()
