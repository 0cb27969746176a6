# SPDX-License-Identifier: Apache-2.0
"""ResNet-164 for small images in half precision, with a moving average of the weights, as object detectors keep it."""

import argparse
import copy

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = (
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.conv2, self.bn2 = (
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.conv3, self.bn3 = (
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                nn.BatchNorm2d(4 * width),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.shortcut(x))


def resnet164(classes):
    layers, inputs = (
        [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()],
        16,
    )
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        for block in range(18):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)
    )


class ModelEMA:
    """Averages everything in the state dict, running statistics included."""

    def __init__(self, model, decay, foreach):
        self.ema, self.decay, self.foreach = (
            copy.deepcopy(model).eval().requires_grad_(False),
            decay,
            foreach,
        )
        self.mine = [
            v for v in self.ema.state_dict().values() if v.dtype.is_floating_point
        ]
        self.theirs = [
            v for v in model.state_dict().values() if v.dtype.is_floating_point
        ]

    @torch.no_grad()
    def update(self, model):
        if self.foreach:
            torch._foreach_lerp_(self.mine, self.theirs, 1 - self.decay)
            return
        state = model.state_dict()
        for name, value in self.ema.state_dict().items():
            if value.dtype.is_floating_point:
                value *= self.decay
                value += (1 - self.decay) * state[name].detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--crop", type=int, default=32)
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--ema", choices=["loop", "foreach"], default="loop")
    parser.add_argument("--ema-every", type=int, default=1)
    parser.add_argument("--optimizer", choices=["default", "fused"], default="default")
    parser.add_argument("--log-interval", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)

    model = resnet164(100).cuda()
    ema = ModelEMA(model, 0.9998, args.ema == "foreach")
    optimizer = torch.optim.SGD(
        model.parameters(),
        0.05,
        momentum=0.9,
        nesterov=True,
        fused=args.optimizer == "fused" or None,
    )
    scaler = torch.amp.GradScaler("cuda")
    images, labels = (
        torch.rand(512, 3, args.crop, args.crop, device="cuda"),
        torch.randint(0, 100, (512,), device="cuda"),
    )
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for step in range(args.steps):
        at = step * args.batch_size % (512 - args.batch_size + 1)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(
                model(images[at : at + args.batch_size]),
                labels[at : at + args.batch_size],
            )
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % args.ema_every == 0:
            ema.update(model)
        if step % args.log_interval == 0:
            print(f"step {step} loss {loss.item():.4f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    main()
