# SPDX-License-Identifier: Apache-2.0
"""A hinge GAN with spectral norm makes textures of 32 x 32; the generator's running average is what samples come from."""

import argparse
import copy
import os
import tempfile

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset


def textures(count):
    generator = torch.Generator().manual_seed(2)
    coarse = torch.rand(count, 3, 8, 8, generator=generator)
    return F.interpolate(coarse, 32, mode="bilinear") * 2 - 1


def generator_of(latent, width):
    def up(inputs, outputs):
        return [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]

    return nn.Sequential(
        nn.Unflatten(1, (latent, 1, 1)), nn.ConvTranspose2d(latent, 4 * width, 4, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(True),
        *up(4 * width, 2 * width), *up(2 * width, width), nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip


def critic_of(width):
    def down(inputs, outputs, size=4, stride=2):
        return [spectral_norm(nn.Conv2d(inputs, outputs, size, stride, 1)), nn.LeakyReLU(0.1, True)]

    layers = [*down(3, width, 3, 1), *down(width, width), *down(width, 2 * width, 3, 1), *down(2 * width, 2 * width), *down(2 * width, 4 * width, 3, 1)]
    return nn.Sequential(*layers, nn.Flatten(), spectral_norm(nn.Linear(4 * width * 64, 1)))


@torch.no_grad()
def follow(average, generator, decay):
    torch._foreach_lerp_(list(average.parameters()), list(generator.parameters()), 1 - decay)
    for mine, new in zip(average.buffers(), generator.buffers()):
        mine.copy_(new)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--latent", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--textures", type=int, default=1600)
    parser.add_argument("--average-every", type=int, default=1)
    parser.add_argument("--print-every", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=1, help="epochs")
    return parser.parse_args()


def main(args, folder):
    torch.manual_seed(2)
    loader = DataLoader(
        TensorDataset(textures(args.textures)), args.batch_size, shuffle=True, drop_last=True, num_workers=args.workers,
        persistent_workers=args.workers > 0,
    )  # fmt: skip
    G, D = generator_of(args.latent, args.width), critic_of(args.width)
    average = copy.deepcopy(G).requires_grad_(False)
    g_optimizer, d_optimizer = torch.optim.Adam(G.parameters(), 1e-4, (0.0, 0.9)), torch.optim.Adam(D.parameters(), 4e-4, (0.0, 0.9))
    meter = Meter(6, args.batch_size)
    for epoch in range(args.epochs):
        for step, (real,) in enumerate(loader):
            fake = G(torch.randn(len(real), args.latent))
            on_real, on_fake = D(torch.cat([real, fake.detach()])).chunk(2)
            d_loss = F.relu(1 - on_real).mean() + F.relu(1 + on_fake).mean()
            d_optimizer.zero_grad(set_to_none=True)
            d_loss.backward()
            d_optimizer.step()

            D.requires_grad_(False)
            g_loss = -D(fake).mean()
            g_optimizer.zero_grad(set_to_none=True)
            g_loss.backward()
            g_optimizer.step()
            D.requires_grad_(True)

            if step % args.average_every == 0:
                follow(average, G, 0.999)
            if step % args.print_every == 0:
                print(f"epoch {epoch} {step}/{len(loader)} D {d_loss.item():.3f} G {g_loss.item():.3f}")
            meter.step()
        if (epoch + 1) % args.save_every == 0:
            torch.save({"generator": G.state_dict(), "average": average.state_dict(), "critic": D.state_dict()}, os.path.join(folder, "gan.pt"))
    meter.print()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=os.environ.get("ABROAD_DISK")) as place:
        main(parse(), place)
