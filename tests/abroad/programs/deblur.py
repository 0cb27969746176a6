# SPDX-License-Identifier: Apache-2.0
"""Motion blur out of photos: NAFNet, a U-net of blocks without activations. Crops come from frames of video that are kept in memory."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from meter import Meter
from torch.utils.data import DataLoader, Dataset


class GoPro(Dataset):
    """Pairs of a blurred and a sharp crop. A blurred frame is the mean of sharp ones, made beforehand."""

    def __init__(self, crop, length, frames=12, height=360, width=640):
        rng = np.random.default_rng(240)
        self.sharp = rng.integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
        self.blurred = np.stack([self.sharp[max(0, frame - 1) : frame + 2].mean(0).astype(np.uint8) for frame in range(frames)])
        self.crop, self.length = crop, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        frame = index % len(self.sharp)
        top, left, flip, turn = (int(torch.randint(limit, ())) for limit in (self.sharp.shape[1] - self.crop, self.sharp.shape[2] - self.crop, 2, 4))
        pair = (frames[frame, top : top + self.crop, left : left + self.crop] for frames in (self.blurred, self.sharp))
        return tuple(torch.from_numpy(np.rot90(part[:, ::-1] if flip else part, turn).copy()) for part in pair)


class ChannelNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(1, channels)

    def forward(self, x):
        return self.norm(x)


def gated(x):
    first, second = x.chunk(2, 1)
    return first * second


class NAFBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = ChannelNorm(c), ChannelNorm(c)
        self.conv1, self.conv2, self.conv3 = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c), nn.Conv2d(c, c, 1)
        self.sca = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1))
        self.conv4, self.conv5 = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(c, c, 1)
        self.beta, self.gamma = nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(torch.zeros(1, c, 1, 1))

    def forward(self, inp):
        x = gated(self.conv2(self.conv1(self.norm1(inp))))
        y = inp + self.conv3(x * self.sca(x)) * self.beta
        return y + self.conv5(gated(self.conv4(self.norm2(y)))) * self.gamma


class NAFNet(nn.Module):
    def __init__(self, width, enc=(1, 1, 2), middle=2, dec=(1, 1, 1)):
        super().__init__()
        self.intro, self.ending = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        widths = [width * 2**level for level in range(len(enc) + 1)]
        self.encoders = nn.ModuleList([nn.Sequential(*[NAFBlock(c) for _ in range(n)]) for c, n in zip(widths, enc)])
        self.downs = nn.ModuleList([nn.Conv2d(c, 2 * c, 2, 2) for c in widths[:-1]])
        self.middle = nn.Sequential(*[NAFBlock(widths[-1]) for _ in range(middle)])
        self.ups = nn.ModuleList([nn.Sequential(nn.Conv2d(2 * c, 4 * c, 1, bias=False), nn.PixelShuffle(2)) for c in reversed(widths[:-1])])
        self.decoders = nn.ModuleList([nn.Sequential(*[NAFBlock(c) for _ in range(n)]) for c, n in zip(reversed(widths[:-1]), dec)])

    def forward(self, inp):
        x, skips = self.intro(inp), []
        for encoder, down in zip(self.encoders, self.downs):
            skips.append(encoder(x))
            x = down(skips[-1])
        x = self.middle(x)
        for up, decoder in zip(self.ups, self.decoders):
            x = decoder(up(x) + skips.pop())
        return inp + self.ending(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size_per_gpu", type=int, default=64)
    parser.add_argument("--gt_size", type=int, default=128)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--total_iter", type=int, default=160)
    parser.add_argument("--num_worker_per_gpu", type=int, default=2)
    parser.add_argument("--prefetch_factor", type=int, default=2)
    parser.add_argument("--print_freq", type=int, default=100)
    parser.add_argument("--cudnn_benchmark", action="store_true")
    opt = parser.parse_args()
    torch.manual_seed(10)
    torch.backends.cudnn.benchmark = opt.cudnn_benchmark

    workers = {"num_workers": opt.num_worker_per_gpu, "prefetch_factor": opt.prefetch_factor if opt.num_worker_per_gpu else None}
    loader = DataLoader(GoPro(opt.gt_size, opt.total_iter * opt.batch_size_per_gpu), opt.batch_size_per_gpu, shuffle=True, pin_memory=True, **workers)
    net = NAFNet(opt.width).cuda()
    optim_g = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.9), fused=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optim_g, opt.total_iter, 1e-7)
    meter = Meter(20, opt.batch_size_per_gpu, torch.cuda.synchronize)
    for current_iter, pair in enumerate(loader, 1):
        lq, gt = (part.cuda(non_blocking=True).permute(0, 3, 1, 2).float() / 255 for part in pair)
        optim_g.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = net(lq)
        l_pix = -10 * torch.log10(1 / (F.mse_loss(output.float(), gt) + 1e-8))
        l_pix.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        optim_g.step()
        scheduler.step()
        if current_iter % opt.print_freq == 0:
            print(f"[iter: {current_iter:,}, lr: {scheduler.get_last_lr()[0]:.3e}] l_pix: {l_pix.item():.4e}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
