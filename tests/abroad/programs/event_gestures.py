# SPDX-License-Identifier: Apache-2.0
"""Hand gestures before an event camera, recognised by a spiking network: leaky neurons with a hard reset, trained through a surrogate
gradient. Layers know two modes: one time step a call, or a whole sequence."""

import argparse
import math

import torch
import torch.nn.functional as F
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_events(count, classes, steps, size, seed=5):
    """Counts of brighter and darker events in each of `steps` moments, of a blob on a Lissajous figure."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    t = torch.linspace(0, 2 * math.pi, steps)
    phase = torch.rand(count, 1, generator=generator) * 6.28
    x = 0.6 * torch.sin((labels[:, None] % 4 + 1) * t + phase)
    y = 0.6 * torch.cos((labels[:, None] // 4 + 1) * t + phase)
    grid = torch.linspace(-1, 1, size)
    blob = torch.exp(-(((grid - x[..., None]) ** 2)[..., None, :] + ((grid - y[..., None]) ** 2)[..., :, None]) / 0.08)
    change = torch.diff(blob, dim=1, prepend=blob[:, :1])
    rate = torch.stack([change.clamp(min=0), (-change).clamp(min=0)], 2) * 4 + 0.05
    return torch.poisson(rate, generator=generator).to(torch.uint8), labels


class ATan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x >= 0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (1 + (math.pi * x) ** 2)


class LIF(nn.Module):
    def __init__(self, tau=2.0, threshold=1.0):
        super().__init__()
        self.tau, self.threshold, self.step_mode, self.v = tau, threshold, "s", None

    def single_step(self, x):
        v = x / self.tau if self.v is None else self.v + (x - self.v) / self.tau
        spike = ATan.apply(v - self.threshold)
        self.v = v * (1 - spike.detach())
        return spike

    def forward(self, x):
        return self.single_step(x) if self.step_mode == "s" else torch.stack([self.single_step(moment) for moment in x])


class Stateless(nn.Sequential):
    """Layers without a memory. A sequence goes through them as if it were one large batch."""

    step_mode = "s"

    def forward(self, x):
        return super().forward(x) if self.step_mode == "s" else super().forward(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class GestureNet(nn.Module):
    def __init__(self, channels, stages, size, classes, step_mode):
        super().__init__()
        layers, inputs = [], 2
        for _ in range(stages):
            convolution = nn.Conv2d(inputs, channels, 3, padding=1, bias=False)
            layers += [Stateless(convolution, nn.BatchNorm2d(channels)), LIF(), Stateless(nn.MaxPool2d(2))]
            inputs = channels
        flat = channels * (size // 2**stages) ** 2
        layers += [Stateless(nn.Flatten(), nn.Dropout(0.3), nn.Linear(flat, 128)), LIF(), Stateless(nn.Linear(128, classes))]
        self.layers, self.step_mode = nn.Sequential(*layers), step_mode
        for layer in layers:
            layer.step_mode = step_mode

    def reset(self):
        for layer in self.layers:
            if isinstance(layer, LIF):
                layer.v = None

    def forward(self, events):
        """(batch, time, polarity, height, width) -> logits, the mean over time."""
        events = events.transpose(0, 1)
        if self.step_mode == "m":
            return self.layers(events).mean(0)
        return sum(self.layers(moment) for moment in events) / len(events)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--T", type=int, default=20, help="moments in a recording")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--step-mode", choices=["s", "m"], default="s", help="single: a moment a call; multi: all of them")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--recordings", type=int, default=480)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--fused", action="store_true", help="the optimizer's fused form")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--log-every", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(5)
    torch.set_num_threads(args.threads)
    data = TensorDataset(*make_events(args.recordings, 11, args.T, args.size))
    workers = {"num_workers": args.num_workers, "persistent_workers": args.num_workers > 0}
    loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True, **workers)
    net = GestureNet(args.channels, args.stages, args.size, 11, args.step_mode)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=args.fused)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader))
    meter, step = Meter(12, args.batch_size), 0
    for epoch in range(args.epochs):
        for events, labels in loader:
            logits = net(events.float().clamp(max=4))
            loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            net.reset()
            step += 1
            if step % args.log_every == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} correct {(logits.argmax(1) == labels).float().mean().item():.2f}")
            meter.step()
    meter.print()


if __name__ == "__main__":
    main()
