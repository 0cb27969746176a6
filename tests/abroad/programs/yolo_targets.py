# SPDX-License-Identifier: Apache-2.0
"""One-stage detector with nine anchors on three grids. Which anchor is responsible for which box is found box by box."""

import argparse

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

WIDTHS = torch.tensor([10, 16, 33, 30, 62, 59, 116, 156, 373])
HEIGHTS = torch.tensor([13, 30, 23, 61, 45, 119, 90, 198, 326])
ANCHORS = torch.stack([WIDTHS, HEIGHTS], 1) / 416
CLASSES, STRIDES = 80, (8, 16, 32)


class Scenes(Dataset):
    def __init__(self, count, size, boxes):
        self.image = torch.randint(0, 255, (3, size, size), dtype=torch.uint8)
        self.count, self.boxes = count, boxes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        boxes = torch.rand(
            self.boxes, 5, generator=torch.Generator().manual_seed(index)
        )
        boxes[:, 0] = (boxes[:, 0] * CLASSES).floor()
        boxes[:, 3:] **= 2
        return self.image, boxes


def anchor_iou(anchor, box):
    smaller = torch.min(anchor, box).prod()
    return smaller / (anchor.prod() + box.prod() - smaller)


def targets_by_loop(boxes, size):
    """For each scale rows of: image, anchor, row, column, class, and where the box lies in the cell."""
    found = [[], [], []]
    for image, rows in enumerate(boxes):
        for row in rows:
            overlaps = [anchor_iou(anchor, row[3:5]).item() for anchor in ANCHORS]
            best = overlaps.index(max(overlaps))
            label, x, y, w, h = row.tolist()
            x, y = (place * (size // STRIDES[best // 3]) for place in (x, y))
            cell = [image, best % 3, int(y), int(x)]
            found[best // 3].append([*cell, label, x % 1, y % 1, w, h])
    return [torch.tensor(rows, dtype=torch.float32).reshape(-1, 9) for rows in found]


def targets_by_table(boxes, size):
    images = torch.arange(len(boxes)).repeat_interleave(boxes.shape[1])
    label, x, y, w, h = boxes.flatten(0, 1).unbind(1)
    both = torch.min(ANCHORS[None], torch.stack([w, h], 1)[:, None]).prod(2)
    best = (both / (ANCHORS.prod(1) + (w * h)[:, None] - both)).argmax(1)
    cells = torch.tensor([size // stride for stride in STRIDES])[best // 3]
    x, y = x * cells, y * cells
    place = [images, best % 3, y.floor(), x.floor()]
    table = torch.stack([*place, label, x % 1, y % 1, w, h], 1)
    return [table[best // 3 == scale] for scale in range(3)]


class Detector(nn.Module):
    def __init__(self, width):
        super().__init__()

        def stage(inputs, outputs, depth):
            layers = [
                nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.LeakyReLU(0.1, True),
            ]
            for _ in range(depth):
                layers += [
                    nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                    nn.BatchNorm2d(outputs),
                    nn.LeakyReLU(0.1, True),
                ]
            return nn.Sequential(*layers)

        self.stem, self.eight = (
            nn.Sequential(stage(3, width, 0), stage(width, 2 * width, 1)),
            stage(2 * width, 4 * width, 3),
        )
        self.sixteen, self.thirtytwo = (
            stage(4 * width, 8 * width, 3),
            stage(8 * width, 16 * width, 2),
        )
        self.heads = nn.ModuleList(
            [nn.Conv2d(many * width, 3 * (5 + CLASSES), 1) for many in (4, 8, 16)]
        )

    def forward(self, x):
        eight = self.eight(self.stem(x))
        sixteen = self.sixteen(eight)
        outputs = [
            head(part)
            for head, part in zip(self.heads, (eight, sixteen, self.thirtytwo(sixteen)))
        ]
        return [
            out.view(len(x), 3, 5 + CLASSES, *out.shape[2:]).permute(0, 1, 3, 4, 2)
            for out in outputs
        ]


def loss_of(outputs, targets):
    total = 0
    for out, rows in zip(outputs, targets):
        out, rows = out.float(), rows.cuda(non_blocking=True)
        image, anchor, y, x, label = rows[:, :5].long().unbind(1)
        wanted = torch.zeros_like(out[..., 4])
        wanted[image, anchor, y, x] = 1
        mine = out[image, anchor, y, x]
        total = (
            total
            + F.binary_cross_entropy_with_logits(out[..., 4], wanted)
            + F.mse_loss(mine[:, :4], rows[:, 5:])
        )
        total = total + F.cross_entropy(mine[:, 5:], label)
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--img-size", type=int, default=416)
    parser.add_argument("--boxes", type=int, default=5)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--vectorized-targets", action="store_true")
    parser.add_argument("--targets-in-workers", action="store_true")
    parser.add_argument("--print-every", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)
    build_targets = targets_by_table if args.vectorized_targets else targets_by_loop

    def collate(batch):
        images, boxes = (torch.stack(part) for part in zip(*batch))
        return images, build_targets(
            boxes, args.img_size
        ) if args.targets_in_workers else boxes

    scenes = Scenes(args.steps * args.batch_size, args.img_size, args.boxes)
    loader = DataLoader(
        scenes,
        args.batch_size,
        num_workers=args.workers,
        pin_memory=True,
        collate_fn=collate,
    )
    model = Detector(args.width).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.937, fused=True)
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step, (images, boxes) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            outputs = model(images.cuda(non_blocking=True).float().div_(255))
        loss = loss_of(
            outputs,
            boxes if args.targets_in_workers else build_targets(boxes, args.img_size),
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.print_every == 0:
            print(f"{step}/{len(loader)} loss {loss.item():.3f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
