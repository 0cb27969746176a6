# SPDX-License-Identifier: Apache-2.0
"""Learned image compression with a scale hyperprior (Ballé et al., 2018): rate and distortion in one loss."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from meter import Meter


class GDN(nn.Module):
    """Generalised divisive normalisation; `inverse` multiplies instead."""

    def __init__(self, channels, inverse=False):
        super().__init__()
        self.inverse = inverse
        self.beta, self.gamma = nn.Parameter(torch.ones(channels)), nn.Parameter(0.1 * torch.eye(channels))

    def forward(self, x):
        norm = F.conv2d(x * x, self.gamma.abs()[:, :, None, None], self.beta.abs() + 1e-6)
        return x * torch.sqrt(norm) if self.inverse else x * torch.rsqrt(norm)


def conv(inputs, outputs, kernel=5, stride=2):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2)


def deconv(inputs, outputs, kernel=5, stride=2):
    return nn.ConvTranspose2d(inputs, outputs, kernel, stride, kernel // 2, output_padding=stride - 1)


class FactorizedDensity(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.place, self.width = nn.Parameter(torch.zeros(1, channels, 1, 1)), nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, z):
        scale = F.softplus(self.width) + 0.01
        upper, lower = torch.sigmoid((z + 0.5 - self.place) / scale), torch.sigmoid((z - 0.5 - self.place) / scale)
        return (upper - lower).clamp(min=1e-9)


class ScaleHyperprior(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.analysis = nn.Sequential(conv(3, n), GDN(n), conv(n, n), GDN(n), conv(n, n), GDN(n), conv(n, m))
        self.synthesis = nn.Sequential(deconv(m, n), GDN(n, True), deconv(n, n), GDN(n, True), deconv(n, n), GDN(n, True), deconv(n, 3))
        self.hyper_analysis = nn.Sequential(conv(m, n, 3, 1), nn.ReLU(), conv(n, n), nn.ReLU(), conv(n, n))
        self.hyper_synthesis = nn.Sequential(deconv(n, n), nn.ReLU(), deconv(n, n), nn.ReLU(), conv(n, m, 3, 1), nn.ReLU())
        self.density = FactorizedDensity(n)

    def forward(self, x):
        y = self.analysis(x)
        z = self.hyper_analysis(y.abs())
        z = z + torch.rand_like(z) - 0.5
        scales = self.hyper_synthesis(z).clamp(min=0.11)
        y = y + torch.rand_like(y) - 0.5
        deviation = y.abs()
        upper, lower = torch.erf((0.5 - deviation) / scales * 0.7071), torch.erf((-0.5 - deviation) / scales * 0.7071)
        return self.synthesis(y), (0.5 * (upper - lower)).clamp(min=1e-9), self.density(z)


class RateDistortion(nn.Module):
    def __init__(self, lmbda):
        super().__init__()
        self.lmbda = lmbda

    def forward(self, x, rebuilt, *likelihoods):
        pixels = x.shape[0] * x.shape[2] * x.shape[3]
        bpp = sum(-likelihood.log2().sum() for likelihood in likelihoods) / pixels
        return self.lmbda * 255**2 * F.mse_loss(rebuilt, x) + bpp, bpp.detach()


def parse_args():
    parser = argparse.ArgumentParser(description="Example training script.")
    parser.add_argument("-n", "--iterations", type=int, default=700)
    parser.add_argument("-lr", "--learning-rate", default=1e-4, type=float)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--patch-size", type=int, default=128)
    parser.add_argument("--channels", type=int, nargs=2, default=(128, 192), metavar=("N", "M"))
    parser.add_argument("--lambda", dest="lmbda", type=float, default=1e-2)
    parser.add_argument("--clip_max_norm", default=1.0, type=float)
    parser.add_argument("--allow-tf32", action="store_true")
    parser.add_argument("--cudnn-benchmark", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--log-freq", type=int, default=100)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(100)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = args.allow_tf32
    torch.backends.cudnn.benchmark = args.cudnn_benchmark

    photos = torch.randint(0, 256, (256, 3, args.patch_size, args.patch_size), dtype=torch.uint8, device="cuda")
    net = ScaleHyperprior(*args.channels).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=args.learning_rate, fused=args.fused or None)
    criterion = RateDistortion(args.lmbda)
    meter = Meter(30, args.batch_size, torch.cuda.synchronize)
    for i in range(args.iterations):
        d = photos[i * args.batch_size % 256 :][: args.batch_size].float() / 255
        optimizer.zero_grad()
        loss, bpp = criterion(d, *net(d))
        loss.backward()
        if args.clip_max_norm > 0:
            torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip_max_norm)
        optimizer.step()
        if i % args.log_freq == 0:
            print(f"Train [{i}/{args.iterations}] Loss: {loss.item():.3f} | Bpp: {bpp.item():.2f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
