# SPDX-License-Identifier: Apache-2.0
"""Wheat heads in photos of fields: a single-shot detector. Of the anchors without a head only the hardest count in the loss."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=240)
    parser.add_argument("--mining", choices=["image", "batch"], default="image")
    parser.add_argument("--negatives", type=int, default=3, help="per positive anchor")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--print-freq", type=int, default=50)
    return parser.parse_args()


def conv(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class Detector(nn.Module):
    def __init__(self, width, anchors=4, classes=2):
        super().__init__()
        self.stem = nn.Sequential(conv(3, width, 2), conv(width, 2 * width, 2), conv(2 * width, 2 * width))
        self.scales = nn.ModuleList([nn.Sequential(conv((2 if i == 0 else 4) * width, 4 * width, 2), conv(4 * width, 4 * width)) for i in range(3)])
        self.heads = nn.ModuleList([nn.Conv2d(4 * width, anchors * (classes + 4), 3, padding=1) for _ in self.scales])
        self.classes = classes

    def forward(self, images):
        features, outputs = self.stem(images), []
        for scale, head in zip(self.scales, self.heads):
            features = scale(features)
            outputs.append(head(features).permute(0, 2, 3, 1).flatten(1).unflatten(1, (-1, self.classes + 4)))
        return torch.cat(outputs, 1).float().split([self.classes, 4], 2)


def mined_by_image(losses, labels, ratio):
    kept, found = losses.new_zeros(()), 0
    for loss, label in zip(losses, labels):
        positive = label > 0
        count = int(positive.sum())
        hardest = loss.masked_fill(positive, 0).topk(min(max(ratio * count, 10), len(loss) // 2)).values
        kept = kept + (loss * positive).sum() + hardest.sum()
        found += max(count, 1)
    return kept, found


def mined_by_batch(losses, labels, ratio):
    positive = labels > 0
    counts = positive.sum(1, keepdim=True)
    rank = losses.detach().masked_fill(positive, 0).argsort(1, descending=True).argsort(1)
    chosen = positive | (rank < (ratio * counts).clamp(10, labels.shape[1] // 2))
    return (losses * chosen).sum(), counts.clamp(min=1).sum()


def multibox_loss(scores, boxes, labels, offsets, args):
    losses = F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
    kept, found = (mined_by_image if args.mining == "image" else mined_by_batch)(losses, labels, args.negatives)
    distances = F.smooth_l1_loss(boxes, offsets, reduction="none").sum(2)
    return (kept + (distances * (labels > 0)).sum()) / found


def main():
    args = parse()
    torch.manual_seed(3)
    model = Detector(args.width).cuda()
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9, weight_decay=5e-4, fused=args.fused or None)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.iterations)

    photos = torch.randint(0, 256, (512, 3, args.size, args.size), dtype=torch.uint8).cuda()
    anchors = model(torch.zeros(1, 3, args.size, args.size, device="cuda"))[0].shape[1]
    labels = (torch.rand(512, anchors) < 0.01).long().cuda()
    offsets = torch.randn(512, anchors, 4).cuda()

    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for iteration in range(args.iterations):
        chosen = torch.randint(0, len(photos), (args.batch_size,), device="cuda")
        images = photos[chosen].float() / 255
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores, boxes = model(images)
        loss = multibox_loss(scores, boxes, labels[chosen], offsets[chosen], args)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if iteration % args.print_freq == 0:
            print(f"[{iteration}/{args.iterations}] loss {loss.item():.3f}")
        meter.step()
    meter.print()


main()
