# SPDX-License-Identifier: Apache-2.0
"""Deep image prior: a network is fitted to one noisy photo. By Langevin dynamics it samples from a posterior instead of overfitting."""

import argparse

import torch
from meter import Meter
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--height", type=int, default=384)
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--channels", type=int, default=128)
parser.add_argument("--scales", type=int, default=5)
parser.add_argument("--num-iter", type=int, default=240)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--param-noise-sigma", type=float, default=2.0)
parser.add_argument("--noise-device", default="cpu")
parser.add_argument("--show-every", type=int, default=50)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--fused", action="store_true")
opt = parser.parse_args()
torch.manual_seed(0)


def block(inputs, outputs, kernel=3, stride=1):
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, padding_mode="reflect"), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2, inplace=True)]


class Hourglass(nn.Module):
    def __init__(self, inputs, channels, scales, skip=4):
        super().__init__()
        self.skip = nn.Sequential(*block(inputs, skip, 1))
        self.down = nn.Sequential(*block(inputs, channels, 3, 2), *block(channels, channels))
        self.deeper = Hourglass(channels, channels, scales - 1) if scales > 1 else nn.Identity()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear")
        self.merge = nn.Sequential(nn.BatchNorm2d(channels + skip), *block(channels + skip, channels), *block(channels, channels, 1))

    def forward(self, x):
        return self.merge(torch.cat([self.up(self.deeper(self.down(x))), self.skip(x)], 1))


dtype = torch.cuda.FloatTensor
net = nn.Sequential(Hourglass(32, opt.channels, opt.scales), nn.Conv2d(opt.channels, 3, 1), nn.Sigmoid()).type(dtype)
if opt.channels_last:
    net = net.to(memory_format=torch.channels_last)
clean = torch.rand(1, 3, opt.height, opt.width)
noisy = (clean + 25 / 255 * torch.randn_like(clean)).clamp(0, 1).type(dtype)
net_input_saved = (0.1 * torch.rand(1, 32, opt.height, opt.width)).type(dtype)
print("Number of params:", sum(p.numel() for p in net.parameters()))


def add_noise(model):
    """Welling and Teh: the weights of the convolutions get noise in proportion to the learning rate."""
    for p in model.parameters():
        if p.dim() == 4:
            noise = torch.randn(p.size(), device=opt.noise_device) * opt.param_noise_sigma * opt.lr
            p.data = p.data + noise.type(dtype)


mse = nn.MSELoss()
optimizer = torch.optim.Adam(net.parameters(), lr=opt.lr, weight_decay=5e-8, fused=opt.fused or None)
out_avg, sgld_mean, samples = None, torch.zeros_like(noisy), 0
meter = Meter(20, 1, torch.cuda.synchronize)
for i in range(opt.num_iter):
    optimizer.zero_grad()
    net_input = net_input_saved + torch.randn_like(net_input_saved) / 30
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=opt.amp):
        out = net(net_input).float()
    total_loss = mse(out, noisy)
    total_loss.backward()
    optimizer.step()
    add_noise(net)
    out_avg = out.detach() if out_avg is None else out_avg * 0.99 + out.detach() * 0.01
    if i > opt.num_iter // 2 and i % 10 == 0:
        sgld_mean += out.detach()
        samples += 1
    if i % opt.show_every == 0:
        print(f"Iteration {i:05d}  Loss {total_loss.item():.6f}")
    meter.step()
meter.print()
