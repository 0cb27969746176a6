# SPDX-License-Identifier: Apache-2.0
"""DCGAN as in the well-known example: two networks, two optimizers, and a status line with five numbers."""

import argparse

import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--nz", type=int, default=100)
parser.add_argument("--ngf", type=int, default=64)
parser.add_argument("--ndf", type=int, default=64)
parser.add_argument("--niter", type=int, default=400)
parser.add_argument("--workers", type=int, default=1)
parser.add_argument("--print-freq", type=int, default=1)
parser.add_argument("--amp", action="store_true")
opt = parser.parse_args()
torch.manual_seed(999)

images = torch.rand(1024, 3, 64, 64)
loader = DataLoader(TensorDataset(images), batch_sampler=[[i % 1024 for i in range(j, j + opt.batch_size)] for j in range(opt.niter)], num_workers=opt.workers, pin_memory=True)


def generator(nz, ngf):
    layers, channels = [nn.ConvTranspose2d(nz, ngf * 8, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 8), nn.ReLU(True)], ngf * 8
    for following in (ngf * 4, ngf * 2, ngf):
        layers += [nn.ConvTranspose2d(channels, following, 4, 2, 1, bias=False), nn.BatchNorm2d(following), nn.ReLU(True)]
        channels = following
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(ndf):
    layers, channels = [nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)], ndf
    for following in (ndf * 2, ndf * 4, ndf * 8):
        layers += [nn.Conv2d(channels, following, 4, 2, 1, bias=False), nn.BatchNorm2d(following), nn.LeakyReLU(0.2, True)]
        channels = following
    return nn.Sequential(*layers, nn.Conv2d(channels, 1, 4, 1, 0, bias=False), nn.Flatten(0))


device = torch.device("cuda")
netG, netD = generator(opt.nz, opt.ngf).to(device), discriminator(opt.ndf).to(device)
criterion = nn.BCEWithLogitsLoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
autocast = torch.autocast("cuda", dtype=torch.bfloat16, enabled=opt.amp)
meter = Meter(20, opt.batch_size, torch.cuda.synchronize)
ones, zeros = torch.ones(opt.batch_size, device=device), torch.zeros(opt.batch_size, device=device)

for i, (real,) in enumerate(loader):
    netD.zero_grad()
    real = real.to(device, non_blocking=True)
    with autocast:
        output = netD(real)
        errD_real = criterion(output.float(), ones)
    errD_real.backward()
    verbose = i % opt.print_freq == 0
    D_x = output.mean().item() if verbose else 0
    noise = torch.randn(opt.batch_size, opt.nz, 1, 1, device=device)
    with autocast:
        fake = netG(noise)
        output = netD(fake.detach())
        errD_fake = criterion(output.float(), zeros)
    errD_fake.backward()
    D_G_z1 = output.mean().item() if verbose else 0
    optimizerD.step()

    netG.zero_grad()
    with autocast:
        output = netD(fake)
        errG = criterion(output.float(), ones)
    errG.backward()
    D_G_z2 = output.mean().item() if verbose else 0
    optimizerG.step()
    if verbose:
        print(f"[{i}/{opt.niter}] Loss_D: {(errD_real + errD_fake).item():.4f} Loss_G: {errG.item():.4f} D(x): {D_x:.4f} D(G(z)): {D_G_z1:.4f} / {D_G_z2:.4f}")
    meter.step()
meter.print()
