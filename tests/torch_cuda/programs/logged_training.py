# SPDX-License-Identifier: Apache-2.0
"""Ordinary trainings: pinned DataLoader, non_blocking copies, AdamW, a loss read every few steps.

python logged_training.py KIND STEPS      KIND: one of KINDS below

GWSIM_PHASES: where to write when each step began and ended (cuda/workloads/phase_log.h)
"""

import json
import os
import sys
import threading
import time
from contextlib import nullcontext

import torch
from torch import distributed, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Mlp(nn.Sequential):
    batch, item = 256, (256,)

    def __init__(self):
        super().__init__(
            nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, CLASSES)
        )  # fmt: skip

    @staticmethod
    def data(*shape):
        return torch.randn(shape)


class Transformer(nn.Module):
    batch, item, vocabulary, width = 32, (128,), 5000, 512

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(self.vocabulary, self.width)
        layer = nn.TransformerEncoderLayer(self.width, 8, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(self.width, CLASSES)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)).mean(1))

    @staticmethod
    def data(*shape):
        return torch.randint(0, Transformer.vocabulary, shape)


class ConvolutionalNetwork(nn.Sequential):
    batch, item = 64, (3, 64, 64)

    def __init__(self):
        layers, channels = [], 3
        for following in (64, 128, 256):
            layers += [nn.Conv2d(channels, following, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(following), nn.ReLU()]
            channels = following
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))

    data = Mlp.data


class RecurrentNetwork(nn.Module):
    """Two bidirectional LSTM layers, and a GRU that reads what they wrote."""

    batch, item = 64, (20, 128)

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(128, 256, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(512, 256, batch_first=True)
        self.head = nn.Linear(256, CLASSES)

    def forward(self, x):
        return self.head(self.gru(self.lstm(x)[0])[0][:, -1])

    data = Mlp.data


class SpectralNetwork(nn.Module):
    """Mixes by Fourier transforms: a learned filter on the spectrum."""

    batch, item = 64, (16, 64, 64)

    def __init__(self):
        super().__init__()
        self.filters = nn.ParameterList(nn.Parameter(torch.randn(16, 64, 33, dtype=torch.complex64)) for _ in range(3))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        for filter in self.filters:
            x = functional.gelu(torch.fft.irfft2(torch.fft.rfft2(x) * filter, s=x.shape[-2:]))
        return self.head(x.mean((2, 3)))

    data = Mlp.data


class Whitening(nn.Module):
    """Decorrelates features by a Cholesky decomposition of their covariance, then solves for the classes."""

    batch, item, width = 256, (256,), 512

    def __init__(self):
        super().__init__()
        self.features = nn.Linear(256, self.width)
        self.head = nn.Linear(self.width, CLASSES)

    def forward(self, x):
        features = self.features(x)
        covariance = features.T @ features / len(x) + torch.eye(self.width, device=x.device)
        white = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), features.T, upper=False)
        return self.head(torch.linalg.solve(covariance, white).T)

    data = Mlp.data


class RunTimeCompiled(nn.Module):
    """Activations that PyTorch compiles by NVRTC when they are first used."""

    batch, item = 256, (256,)

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))
        self.head = nn.Linear(256, CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.special.i1e(layer(x))
        return self.head(x)

    data = Mlp.data


# kind: (model, precision of autocast, as DistributedDataParallel of one rank)
KINDS = {
    "mlp": (Mlp, None, False),
    "ddp": (Mlp, None, True),
    "transformer": (Transformer, torch.float16, False),
    "convnet": (ConvolutionalNetwork, None, False),
    "recurrent": (RecurrentNetwork, None, False),
    "spectral": (SpectralNetwork, None, False),
    "whitening": (Whitening, None, False),
    "jiterator": (RunTimeCompiled, None, False),
}


class Training:
    def __init__(self, kind):
        model, self.precision, self.parallel = KINDS[kind]
        self.kind = model
        self.model = model().cuda()
        if self.parallel:
            distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.precision is torch.float16)

    def batches(self, steps):
        items = steps * self.kind.batch
        data = TensorDataset(self.kind.data(items, *self.kind.item), torch.randint(0, CLASSES, (items,)))
        return iter(DataLoader(data, batch_size=self.kind.batch, num_workers=1, pin_memory=True))

    def step(self, x, y):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=self.precision) if self.precision else nullcontext():
            loss = functional.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def end(self):
        torch.cuda.synchronize()
        if self.parallel:
            distributed.destroy_process_group()


class Log:
    def __init__(self):
        self.phases, self.thread = [], threading.get_native_id()

    def add(self, phase, step, begin, end):
        self.phases.append({"phase": phase, "tid": self.thread, "step": step, "begin": begin, "end": end})

    def write(self, path):
        with open(path, "w") as file:
            file.writelines(json.dumps(phase) + "\n" for phase in self.phases)


def main():
    kind, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(0)
    # Else the loader's pin thread may take Python's lock between a batch and the look at the clock: no wait for the batch.
    sys.setswitchinterval(1)
    training, log = Training(kind), Log()
    batches = training.batches(steps)
    begin = now_ns()
    for step in range(steps):
        asked = now_ns()
        batch = next(batches)
        log.add("data_wait", step, asked, now_ns())
        loss = training.step(*batch)
        del batch  # else the next one's assignment frees it, and that is no wait
        end = now_ns()
        log.add("step", step, begin, end)
        begin = end
        if step % 5 == 0:
            print(step, loss.item())
    training.end()
    if path := os.environ.get("GWSIM_PHASES"):
        log.write(path)


if __name__ == "__main__":
    main()
