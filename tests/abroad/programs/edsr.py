# SPDX-License-Identifier: Apache-2.0
"""Super-resolution by a factor of four: residual blocks without normalisation, patches flipped and rotated by the loader."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    """Decoded images in memory, as the usual scripts cache them; each sample is a crop of both resolutions."""

    def __init__(self, count, side):
        self.large = torch.randint(0, 255, (8, 3, 768, 768), dtype=torch.uint8)
        self.small = self.large[:, :, ::4, ::4].contiguous()
        self.count, self.side = count, side

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x, y = index * 7 % (192 - self.side), index * 13 % (192 - self.side)
        small = self.small[index % 8, :, y : y + self.side, x : x + self.side]
        large = self.large[
            index % 8, :, 4 * y : 4 * (y + self.side), 4 * x : 4 * (x + self.side)
        ]
        if index % 2:
            small, large = small.flip(2), large.flip(2)
        return small.rot90(index % 4, (1, 2)), large.rot90(index % 4, (1, 2))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(width, width, 3, padding=1),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x):
        return x + 0.1 * self.second(F.relu(self.first(x), inplace=True))


class EDSR(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(
            *[Block(width) for _ in range(blocks)],
            nn.Conv2d(width, width, 3, padding=1),
        )
        up = [
            part
            for _ in range(2)
            for part in (nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2))
        ]
        self.tail = nn.Sequential(*up, nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x):
        x = self.head(x)
        return self.tail(x + self.body(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--patch-size", type=int, default=48)
    parser.add_argument("--n-feats", type=int, default=128)
    parser.add_argument("--n-resblocks", type=int, default=16)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--n-threads", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=4)
    parser.add_argument("--precision", choices=["single", "bf16"], default="bf16")
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--print-every", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = args.benchmark

    patches = Patches(args.steps * args.batch_size, args.patch_size)
    loader = DataLoader(
        patches,
        args.batch_size,
        shuffle=True,
        num_workers=args.n_threads,
        pin_memory=True,
        prefetch_factor=args.prefetch_factor,
    )
    model = (
        EDSR(args.n_feats, args.n_resblocks)
        .cuda()
        .to(memory_format=torch.channels_last)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    running = torch.zeros((), device="cuda")
    for batch, (small, large) in enumerate(loader):
        small, large = small.cuda(non_blocking=True), large.cuda(non_blocking=True)
        with torch.autocast(
            "cuda", dtype=torch.bfloat16, enabled=args.precision == "bf16"
        ):
            restored = model(small.float().div_(255))
        loss = F.l1_loss(restored.float(), large.float().div_(255))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running += loss.detach()
        if (batch + 1) % args.print_every == 0:
            print(
                f"[{batch + 1}/{len(loader)}]\t[L1: {running.item() / args.print_every:.4f}]"
            )
            running.zero_()
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
