# SPDX-License-Identifier: Apache-2.0
"""A training script that does more than training between its steps: saves, logs, evaluates, collects garbage, sleeps."""

import argparse
import fcntl
import gc
import io
import json
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset
from training import Model

PIPE_BYTES = 4096
SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ


class Samples(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((16,), float(index))


class RemoteStore(io.BytesIO):
    """Takes `seconds` for what torch.save() writes to it, as an object store does."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def write(self, data):
        time.sleep(self.seconds)
        self.seconds = 0
        return super().write(data)


def slow_terminal(ms):
    """A pipe whose reader takes `ms` for each 4 KiB."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, SET_PIPE_SIZE, PIPE_BYTES)
    if os.fork() == 0:
        os.close(writer)
        while os.read(reader, PIPE_BYTES):
            time.sleep(ms / 1e3)
        os._exit(0)
    os.close(reader)
    return writer


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batches", type=int, default=60, help="of an epoch")
    parser.add_argument("--train-ms", type=float, default=30)
    parser.add_argument("--compute-ms", type=float, default=0, help="CPU time of a step")
    parser.add_argument("--matmuls", type=int, default=0, help="of 512 x 512, in each step")
    parser.add_argument("--threads", type=int, default=1, help="that compute one")
    parser.add_argument("--sleep-ms", type=float, default=0, help="of an environment that is asked in each step")
    parser.add_argument("--hook-ms", type=float, default=0, help="CPU time of a step, in a hook after a layer's forward")
    parser.add_argument("--forward-ms", type=float, default=0, help="the same, in the layer itself")
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--save-ms", type=float, default=300)
    parser.add_argument("--log-every", type=int, default=0)
    parser.add_argument("--validate-batches", type=int, default=0, help="after each epoch")
    parser.add_argument("--validate-ms", type=float, default=20, help="for a batch")
    parser.add_argument("--objects", type=int, default=0, help="that live as long as the program")
    parser.add_argument("--collect", action="store_true", help="garbage, in each step")
    parser.add_argument("--collect-between", action="store_true", help="epochs")
    parser.add_argument("--freeze", action="store_true")
    parser.add_argument("--anomaly", action="store_true")
    parser.add_argument("--hang-after", type=int, default=0, help="steps; then waits for a peer that never writes")
    return parser.parse_args()


def compute(ms):
    until = time.thread_time() + ms / 1e3
    while time.thread_time() < until:
        pass


class Layer(torch.nn.Module):
    def __init__(self, ms):
        super().__init__()
        self.ms = ms

    def forward(self, tensor):
        compute(self.ms)
        return tensor


def layer_of(options):
    layer = Layer(options.forward_ms)
    if options.hook_ms:
        layer.register_forward_hook(lambda *_: compute(options.hook_ms))
    return layer


class Script:
    def __init__(self, options):
        self.options = options
        self.model = Model(options.train_ms)
        torch.set_num_threads(options.threads)
        self.wide = torch.rand(512, 512)
        self.layer = layer_of(options)
        self.terminal = slow_terminal(6) if options.log_every else None
        self.objects = [[] for _ in range(options.objects)]
        self.phases = {"evaluation": 0.0, "checkpoint": 0.0}
        if options.freeze:
            gc.collect()
            gc.freeze()

    def wait_for_peer(self):
        print("waiting", flush=True)
        reader, self.never_written = os.pipe()
        os.read(reader, 1)

    def step(self, number, batch):
        options = self.options
        if options.hang_after and number == options.hang_after:
            self.wait_for_peer()
        self.model.step(self.layer(batch))
        compute(options.compute_ms)
        for _ in range(options.matmuls):
            torch.mm(self.wide, self.wide)
        if options.sleep_ms:
            time.sleep(options.sleep_ms / 1e3)
        if options.collect:
            gc.collect()
        if options.log_every and number % options.log_every == options.log_every - 1:
            os.write(self.terminal, b"." * 8 * PIPE_BYTES)
        if options.save_every and number % options.save_every == options.save_every - 1:
            self.save()

    def save(self):
        begin = time.monotonic()
        torch.save({"weight": self.model.weight}, RemoteStore(self.options.save_ms / 1e3))
        self.phases["checkpoint"] += time.monotonic() - begin

    def validate(self, loader):
        begin = time.monotonic()
        for _ in loader:
            time.sleep(self.options.validate_ms / 1e3)
        self.phases["last_evaluation"] = time.monotonic() - begin
        self.phases["evaluation"] += self.phases["last_evaluation"]


def main():
    options = parse()
    torch.autograd.set_detect_anomaly(options.anomaly)
    script = Script(options)
    training = DataLoader(Samples(options.batches * 4), 4)
    validation = DataLoader(Samples(options.validate_batches * 4), 4) if options.validate_batches else []
    for epoch in range(options.epochs):
        for number, batch in enumerate(training):
            script.step(epoch * options.batches + number, batch)
        if options.collect_between:
            gc.collect()
        script.validate(validation)
    print(json.dumps(script.phases))
    script.model.print_times()


if __name__ == "__main__":
    main()
