# SPDX-License-Identifier: Apache-2.0
"""A training loop around a DataLoader whose batches cost a known time, which times its own waits. Knows nothing of gpuwatch.

Prints JSON: when each batch was asked for, came and was worked off (seconds of CLOCK_MONOTONIC); seconds inside each next()
that returned a batch; seconds of each step from the end of one to the end of the next (the change of epochs included, the
first step left out); CPU seconds used. With --log, each sample adds a line to that file: its index, begin, end, and the seconds that it was to cost.
"""

import argparse
import hashlib
import json
import math
import os
import random
import resource
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


def sleep(seconds):
    time.sleep(seconds)


def python(seconds):
    """Uses a CPU for that long, by the thread's own CPU clock, and holds Python's lock."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def native(seconds):
    """The same in C code that lets go of Python's lock, as image decoders and numpy do."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.pbkdf2_hmac("sha256", b"gpuwatch", b"salt", 400)


WORK = {"sleep": sleep, "python": python, "native": native}


class Timed(Dataset):
    """`batch` samples together cost `service_ms`; with spread > 0 the cost of a batch is lognormal around it."""

    def __init__(self, options):
        self.options = options

    def __len__(self):
        return self.options.batches * self.options.batch

    def __getitem__(self, index):
        options = self.options
        began = time.monotonic()
        seconds = options.service_ms / 1e3 / options.batch
        if options.spread:
            of_batch = random.Random(index // options.batch)
            seconds *= math.exp(of_batch.gauss(0, options.spread) - options.spread**2 / 2)
        if options.files:
            with open(os.path.join(options.files, f"{index % options.file_count}.bin"), "rb") as file:
                file.read()
        if seconds > 0:
            WORK[options.work](seconds)
        if options.log:
            with open(options.log, "a") as log:
                log.write(f"[{index}, {began}, {time.monotonic()}, {seconds}]\n")
        return torch.zeros(options.values)


class Batches(Timed):
    """Makes whole batches itself (batch_size=None)."""

    def __len__(self):
        return self.options.batches

    def __getitem__(self, index):
        first = index * self.options.batch
        return torch.stack([super(Batches, self).__getitem__(first + i) for i in range(self.options.batch)])


class Stream(Timed, IterableDataset):
    """The same samples in a stream, batches dealt out to the workers in turn."""

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for batch in range(first, self.options.batches, step):
            for i in range(self.options.batch):
                yield self[batch * self.options.batch + i]


KINDS = {"map": Timed, "batches": Batches, "iterable": Stream}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=sorted(KINDS), default="map")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--no-in-order", action="store_true")
    parser.add_argument("--start", help="fork, spawn or forkserver")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batches", type=int, default=80, help="in an epoch")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--values", type=int, default=16, help="floats in a sample")
    parser.add_argument("--service-ms", type=float, default=24)
    parser.add_argument("--think-ms", type=float, default=10)
    parser.add_argument("--spread", type=float, default=0)
    parser.add_argument("--work", choices=sorted(WORK), default="sleep", help="what a sample costs")
    parser.add_argument("--think", choices=sorted(WORK), help="what a step costs; as --work")
    parser.add_argument("--cpu", action="store_true", help="--work python")
    parser.add_argument("--log", help="file that gets a line a sample")
    parser.add_argument("--files", help="folder of 0.bin, 1.bin, ...: each sample reads one")
    options = parser.parse_args()
    if options.cpu:
        options.work = "python"
    options.think = options.think or options.work
    options.file_count = len(os.listdir(options.files)) if options.files else 0
    return options


def make_loader(options):
    return DataLoader(KINDS[options.kind](options), **settings(options))


def settings(options):
    result = {"batch_size": None if options.kind == "batches" else options.batch, "num_workers": options.workers}
    if options.workers:
        result["prefetch_factor"] = options.prefetch
        result["persistent_workers"] = options.persistent
        result["multiprocessing_context"] = options.start
        if options.no_in_order:
            result["in_order"] = False
    return result


def cpu_seconds():
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def train(options):
    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.zeros(options.values))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    loader = make_loader(options)
    asked, got, done = [], [], []
    for _ in range(options.epochs):
        batches = iter(loader)
        while True:
            began = time.monotonic()
            try:
                batch = next(batches)
            except StopIteration:
                break
            got.append(time.monotonic())
            asked.append(began)
            WORK[options.think](options.think_ms / 1e3)
            weight.grad = batch.mean(0)
            optimizer.step()
            del batch  # else the next one's assignment frees it within the time of its wait
            done.append(time.monotonic())
    result = {"asked": asked, "got": got, "done": done, "cpu_s": cpu_seconds()}
    result["waits"] = [b - a for a, b in zip(asked, got)]
    result["steps"] = [b - a for a, b in zip(done, done[1:])]
    print(json.dumps(result))


if __name__ == "__main__":
    train(arguments())
