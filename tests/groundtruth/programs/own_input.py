# SPDX-License-Identifier: Apache-2.0
"""Training loops without any framework's loader, that log what their input cost: random crops of a memory-mapped file of
tokens, records read from a file by a generator, an environment in another process. Knows nothing of gpuwatch.

Prints JSON: steps, each with its begin and end (monotonic ns) and, of its input, how long it waited for pages, was in
read calls, and waited for the environment's answer.
"""

import argparse
import json
import mmap
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

now = time.monotonic_ns

ENVIRONMENT = """
import os, time
while os.read(0, 1):
    time.sleep(0.008)
    os.write(1, bytes(16))
"""


def run_delay():
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1])


class Tokens:
    """Crops at random of a file that is larger than what memory keeps of it."""

    def __init__(self, options):
        self.block, self.crops = 256, 3 * options.reads
        with open(options.file, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.data = np.memmap(options.file, dtype=np.uint16, mode="r")
        self.data._mmap.madvise(mmap.MADV_RANDOM)

    def batch(self, step):
        began, cpu, delay = now(), time.thread_time_ns(), run_delay()
        places = torch.randint(len(self.data) - self.block, (self.crops,))
        x = torch.stack([torch.from_numpy(self.data[i : i + self.block].astype(np.int64)) for i in places])
        waited = now() - began - (time.thread_time_ns() - cpu) - (run_delay() - delay)
        return x.float(), {"fault": max(0, waited)}


class Records:
    """Short reads of a file that is in memory. What Python takes around a read, as much as around one of no bytes, is not
    waiting: 1 us of 12."""

    def __init__(self, options):
        self.file = os.open(options.file, os.O_RDONLY)
        self.size = os.fstat(self.file).st_size
        self.count = 4 * options.reads
        self.buffers = [bytearray(1 << 17)]
        self.around = statistics.median(self.read([bytearray(0)], 0) for _ in range(999))

    def read(self, buffers, place):
        began = now()
        os.preadv(self.file, buffers, place)
        return now() - began

    def batch(self, step):
        inside, parts = 0, []
        for i in range(self.count):
            place = (step * self.count + i) * 7919 * 4096 % (self.size - len(self.buffers[0]))
            inside += self.read(self.buffers, place) - self.around
            parts.append(self.buffers[0][0])
        return torch.tensor(parts, dtype=torch.float32), {"read": inside}


class Environment:
    """Answers when it has computed, in a process of its own."""

    def __init__(self, options):
        plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        command = [sys.executable, "-S", "-c", ENVIRONMENT]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=plain)

    def batch(self, step):
        os.write(self.process.stdin.fileno(), b"a")
        began = now()
        answer = os.read(self.process.stdout.fileno(), 16)
        waited = now() - began
        return torch.tensor(list(answer), dtype=torch.float32), {"answer": waited}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["tokens", "records", "environment"])
    parser.add_argument("--file", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--reads", type=int, default=40)
    parser.add_argument("--compute-ms", type=float, default=8)
    options = parser.parse_args()

    torch.set_num_threads(1)
    source = {"tokens": Tokens, "records": Records, "environment": Environment}[options.kind](options)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    steps, began = [], now()
    for step in range(options.steps):
        x, cost = source.batch(step)
        until = time.thread_time() + options.compute_ms / 1e3
        while time.thread_time() < until:
            weight.grad = x.mean().reshape(1)
        optimizer.step()
        ended = now()
        steps.append({"begin": began, "end": ended, **cost})
        began = ended
    print(json.dumps(steps))


if __name__ == "__main__":
    main()
