# SPDX-License-Identifier: Apache-2.0
"""U-Net for binary masks. Dice and pixel accuracy are computed with NumPy on the predictions, for a progress line."""

import argparse

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    def __init__(self, count, size):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.rand(32, 1, size, size, generator=generator)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image = self.images[index % 32]
        return image, (image > 0.5).float()


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.down1, self.down2, self.down3 = double_conv(1, width), double_conv(width, 2 * width), double_conv(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.conv2, self.conv1 = double_conv(4 * width, 2 * width), double_conv(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.down3(self.pool(b))
        b = self.conv2(torch.cat([b, self.up2(c)], 1))
        return self.out(self.conv1(torch.cat([a, self.up1(b)], 1)))


def dice(prediction, target):
    prediction = prediction > 0.5
    return (2 * np.logical_and(prediction, target).sum() + 1) / (prediction.sum() + target.sum() + 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--metrics-every", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = args.tf32

    loader = DataLoader(Scans(args.steps * args.batch_size, args.size), args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=True)
    net = UNet().cuda()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-4, foreach=True)
    criterion = nn.BCEWithLogitsLoss()
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    scores = []
    for step, (images, masks) in enumerate(loader):
        images, masks = images.cuda(non_blocking=True), masks.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.amp):
            logits = net(images)
            loss = criterion(logits, masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.metrics_every == 0:
            predicted = torch.sigmoid(logits).detach().float().cpu().numpy()
            target = masks.cpu().numpy() > 0.5
            scores.append([dice(p, t) for p, t in zip(predicted, target)])
            if step % 20 == 0:
                print(f"{step}: loss {loss.item():.3f} dice {np.mean(scores[-20:]):.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
