# SPDX-License-Identifier: Apache-2.0
"""Trains one of several models whose kernels are shorter than what it takes to launch them.

python small_models.py MODEL [--compile MODE]

Its last line is {"step_ms": by its own clock between two synchronised steps, "forward_backward_ms": of the host,
"parameters": tensors that are trained, "run_delay_share": 0, "loops_ms": what the same loop took each time, before and after, which
tells how fast the machine was}.
"""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10
# The first steps are part of the report: so many follow that they do not matter.
STEPS, WARM_UP, LOG_EVERY = 1000, 20, 20


def mlp(*layers):
    return nn.Sequential(nn.Linear(64, 64), *layers, nn.Linear(64, CLASSES)), torch.zeros(32, 64)


class TextClassifier(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        layer = nn.TransformerEncoderLayer(64, 4, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)).mean(1))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x):
        return functional.relu(x + self.layers(x))


def image_classifier(*layers):
    return nn.Sequential(nn.Conv2d(3, 32, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES)), torch.zeros(2, 3, 16, 16)


MODELS = {
    "mlp of 4 normed layers": lambda: mlp(*(part for _ in range(4) for part in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)))),
    "mlp of 30 layers": lambda: mlp(*(part for _ in range(30) for part in (nn.Linear(64, 64), nn.ReLU()))),
    "transformer of 2 layers": lambda: (TextClassifier(2), torch.zeros(4, 16, dtype=torch.long)),
    "transformer of 6 layers": lambda: (TextClassifier(6), torch.zeros(4, 16, dtype=torch.long)),
    "convolutions": lambda: image_classifier(*(part for _ in range(3) for part in (nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()))),
    "8 residual blocks": lambda: image_classifier(*(Residual(32) for _ in range(8))),
}


def loop_ms():
    before = time.perf_counter()
    sum(range(300_000))
    return (time.perf_counter() - before) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--compile")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    model, x = MODELS[args.model]()
    model, x = model.cuda(), x.cuda()
    labels = torch.zeros(len(x), dtype=torch.long, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    forward = torch.compile(model, mode=args.compile) if args.compile else model
    began, on_host, loops = 0, 0, []
    for step in range(STEPS):
        if step == WARM_UP:
            torch.cuda.synchronize()
            loops = [loop_ms() for _ in range(5)]
            began, on_host = time.perf_counter(), 0
        before = time.perf_counter()
        output = forward(x)
        loss = functional.cross_entropy(output, labels)
        optimizer.zero_grad()
        loss.backward()
        on_host += time.perf_counter() - before
        optimizer.step()
        if step % LOG_EVERY == 0:
            print(step, loss.item())
    torch.cuda.synchronize()
    steps = STEPS - WARM_UP
    times = {"step_ms": (time.perf_counter() - began) / steps * 1e3, "forward_backward_ms": on_host / steps * 1e3}
    loops += [loop_ms() for _ in range(5)]
    times |= {"loops_ms": loops, "run_delay_share": 0}
    print(json.dumps({**times, "parameters": len(list(model.parameters()))}))


if __name__ == "__main__":
    main()
