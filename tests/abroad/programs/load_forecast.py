# SPDX-License-Identifier: Apache-2.0
"""Electricity demand of tomorrow from that of last week, by N-BEATS: each block explains a part and leaves the rest to the next."""

import argparse

import torch
from meter import Meter
from torch import nn


class Block(nn.Module):
    def __init__(self, lookback, horizon, width, layers, theta):
        super().__init__()
        sizes = [lookback, *[width] * layers]
        self.body = nn.Sequential(*[part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())])
        self.theta = nn.Linear(width, theta)
        self.backcast, self.forecast = nn.Linear(theta, lookback, bias=False), nn.Linear(theta, horizon, bias=False)

    def forward(self, x):
        theta = self.theta(self.body(x))
        return self.backcast(theta), self.forecast(theta)


class NBeats(nn.Module):
    def __init__(self, lookback, horizon, stacks, blocks, width, layers, theta=32):
        super().__init__()
        self.blocks = nn.ModuleList([Block(lookback, horizon, width, layers, theta) for _ in range(stacks * blocks)])

    def forward(self, x):
        total = 0
        for block in self.blocks:
            backcast, forecast = block(x)
            x, total = x - backcast, total + forecast
        return total


def smape(forecast, actual):
    return 200 * ((forecast - actual).abs() / (forecast.abs() + actual.abs() + 1e-3)).mean()


def train(args):
    device = torch.device("cuda")
    demand = torch.rand(args.clients, args.hours).to(device)
    windows = demand.unfold(1, args.lookback + args.horizon, 1)
    model = NBeats(args.lookback, args.horizon, args.stacks, args.blocks, args.width, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [args.iterations * part // 10 for part in (5, 7, 9)], 0.5)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, {windows.shape[0] * windows.shape[1]} windows")
    meter = Meter(20, args.batch_size, torch.cuda.synchronize)
    for iteration in range(args.iterations):
        client = torch.randint(0, windows.shape[0], (args.batch_size,), device=device)
        start = torch.randint(0, windows.shape[1], (args.batch_size,), device=device)
        past, future = windows[client, start].split([args.lookback, args.horizon], 1)
        level = past.mean(1, keepdim=True) + 1e-3
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            forecast = model(past / level)
        loss = smape(forecast.float() * level, future)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        if iteration % args.print_every == 0:
            print(f"{iteration} sMAPE {loss.item():.2f}")
        meter.step()
    meter.print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--clients", type=int, default=321)
    parser.add_argument("--hours", type=int, default=8760)
    parser.add_argument("--lookback", type=int, default=168)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--stacks", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=220)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--print-every", type=int, default=100)
    arguments = parser.parse_args()
    torch.manual_seed(7)
    train(arguments)
