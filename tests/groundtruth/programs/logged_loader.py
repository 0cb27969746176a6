# SPDX-License-Identifier: Apache-2.0
"""A training loop around a DataLoader whose dataset logs what it does: reads, transforms, collation, each with its begin and
end on the monotonic clock, in a file for each process. Knows nothing of gpuwatch.

    python logged_loader.py --log FOLDER --workers 2 --read-ms 6

Lines of FOLDER/<pid>.jsonl, times in ns:
    {"span": "read" | "transform" | "collate", "fetch": n, "begin", "end", "delay": runnable without a CPU, "io": in read calls}
        (of "collate" also "batch": k)
    {"span": "yield", "loader", "batch": k, "end"}       the sampler gave out the k-th batch of this pass
    {"span": "next" | "iter" | "stop", "loader", "begin", "end", "pid", "fetch", "batch"}   the consumer; what it was given
    {"span": "left", "loader"}                            the rest of a pass is not wanted
    {"span": "step", "begin", "end", "delay"}             between two ends of the optimizer; delay outside of data waits
"""

import argparse
import json
import math
import mmap
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

now = time.monotonic_ns

# A storage that takes its time: answers a request for n bytes of delay (in 10 us) by one byte, on a pipe.
STORAGE = """
import os, struct, time
while request := os.read(0, 4):
    time.sleep(struct.unpack("i", request)[0] / 1e5)
    os.write(1, b"x")
"""


class Log:
    """Lines of this process; written where the process is known to have time for it."""

    def __init__(self, folder):
        self.folder = folder
        self.pid = None
        self.lines = []

    def open(self):
        if self.pid == os.getpid():
            return
        self.pid = os.getpid()
        self.lines = []
        self.file = os.open(self.folder / f"{self.pid}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def delay(self):
        """How long this thread has been runnable without a CPU. The file is of the thread that opened it."""
        return int(os.pread(self.schedstat, 64, 0).split()[1])

    def add(self, **line):
        self.lines.append(json.dumps(line))

    def write(self):
        if self.lines:
            os.write(self.file, ("\n".join(self.lines) + "\n").encode())
            self.lines = []


class Slow:
    """The storage process of one reader. A blocking read of its pipe is what a read of a slow disk is."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", STORAGE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
        )

    def read(self, seconds):
        os.write(self.process.stdin.fileno(), int(seconds * 1e5).to_bytes(4, "little"))
        began = now()
        os.read(self.process.stdout.fileno(), 1)
        return now() - began


class Source:
    """Where samples come from, each of `read_ms` over the batch."""

    def __init__(self, options, log):
        self.options, self.log = options, log
        self.pools = [Slow() for _ in range(options.workers or 1)] if options.read == "slow" else []
        self.map = self.file = None
        self.buffers = [bytearray(1 << 17)]

    def read(self, seconds, position):
        """Returns the ns inside read calls."""
        kind = self.options.read
        if kind == "slow":
            info = get_worker_info()
            return self.pools[info.id if info else 0].read(seconds)
        if self.file is None:
            self.file = os.open(self.options.file, os.O_RDONLY)
            self.map = np.memmap(self.options.file, dtype=np.uint8, mode="r")
            if kind == "map":  # not from memory, and no page but the one that is asked for
                os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)
                self.map._mmap.madvise(mmap.MADV_RANDOM)
        if kind == "small":
            return self.read_small(position)
        # A read through a map is no call: what it waited for is the time that it neither had a CPU nor could have used one.
        began, cpu, delay = now(), time.thread_time_ns(), self.log.delay()
        self.read_map(position)
        return now() - began - (time.thread_time_ns() - cpu) - (self.log.delay() - delay)

    def read_small(self, position):
        """Reads of the page cache, each far below what a single wait is recorded from. What the interpreter takes for a
        call, to be seen in one that reads nothing, is not reading."""
        size, inside = len(self.buffers[0]), 0
        call_ns = self.call_ns()
        for _ in range(self.options.small_reads):
            place = position * size % (len(self.map) - size)
            began = now()
            os.preadv(self.file, self.buffers, place)
            inside += max(0, now() - began - call_ns)
            position += 7919
        return inside

    def call_ns(self):
        times = []
        for _ in range(20):
            began = now()
            os.preadv(self.file, [], 0)
            times.append(now() - began)
        return min(times)

    def read_map(self, position):
        """Pages that are on the disk and not in memory."""
        pages = len(self.map) // 4096
        for _ in range(self.options.map_pages):
            position = (position * 1103515245 + 12345) % pages
            self.map[position * 4096]


class Cost:
    """What a sample does: reads, then transforms."""

    def __init__(self, options, log):
        self.options, self.log = options, log
        self.source = Source(options, log)
        self.fetch = 0  # ordinal in this process
        self.asleep = 0  # delay while asleep, which is part of the sleep
        self.last = None  # (fetch, end, delay) of the last span: those of a fetch follow each other without gaps

    def timed(self, span, work, **more):
        self.log.open()
        if self.last is None or self.last[0] != self.fetch:
            self.last = (self.fetch, now(), self.log.delay())
        _, begin, delay = self.last
        self.asleep = 0
        inside = work()
        self.last = (self.fetch, now(), self.log.delay())
        _, end, until = self.last
        delay = until - delay - self.asleep
        self.log.add(span=span, fetch=self.fetch, begin=begin, end=end, delay=delay, io=inside or 0, **more)

    def work(self, seconds):
        delay = self.log.delay()
        work(seconds, self.options.cpu)
        if not self.options.cpu:
            self.asleep = self.log.delay() - delay

    def sample(self, index):
        options = self.options
        factor = 1 / options.batch
        if options.spread:
            of_batch = random.Random(index // options.batch)
            factor *= math.exp(of_batch.gauss(0, options.spread) - options.spread**2 / 2)
        self.timed("read", lambda: self.source.read(options.read_ms / 1e3 * factor, index + 1) if options.read else None)
        self.timed("transform", lambda: self.work(options.transform_ms / 1e3 * factor))
        return index // options.batch

    def collate(self, samples):
        payload = []

        def put_together():
            self.work(self.options.collate_ms / 1e3)
            # Python objects are pickled into the pipe by the worker's feeder thread; tensors would go by shared memory.
            payload.extend(bytes(1 << 10) for _ in range(self.options.payload_kib))

        self.timed("collate", put_together, batch=samples[0])
        made = {"pid": os.getpid(), "fetch": self.fetch, "batch": samples[0], "payload": payload}
        self.fetch += 1
        self.log.write()
        return made


def work(seconds, on_cpu):
    if not on_cpu:
        time.sleep(seconds)
        return
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Samples(Dataset):
    def __init__(self, cost, length):
        self.cost, self.length = cost, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.cost.sample(index)


class Stream(IterableDataset):
    """Each worker makes its share of the batches."""

    def __init__(self, cost, length, batch):
        self.cost, self.length, self.batch = cost, length, batch

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for batch in range(first, self.length // self.batch, step):
            for index in range(batch * self.batch, (batch + 1) * self.batch):
                yield self.cost.sample(index)


class Batches:
    """A batch sampler that logs when it gave out a batch: right before the loader sends it to a worker."""

    def __init__(self, loader, length, batch, log):
        self.loader, self.length, self.batch, self.log = loader, length, batch, log

    def __len__(self):
        return self.length // self.batch

    def __iter__(self):
        for k in range(len(self)):
            self.log.add(span="yield", loader=self.loader, batch=k, end=now())
            yield list(range(k * self.batch, (k + 1) * self.batch))


def make_loader(number, options, log):
    cost = Cost(options, log)
    length = options.batches * options.batch
    common = {"num_workers": options.workers, "collate_fn": cost.collate}
    if options.workers:
        common |= {"prefetch_factor": options.prefetch, "persistent_workers": options.persistent, "in_order": not options.any_order}
    if options.iterable:
        return DataLoader(Stream(cost, length, options.batch), options.batch, **common)
    return DataLoader(Samples(cost, length), batch_sampler=Batches(number, length, options.batch, log), **common)


class Consumer:
    def __init__(self, options):
        self.options = options
        self.log = Log(options.log)
        self.log.open()
        self.loaders = [make_loader(number, options, self.log) for number in range(options.loaders)]
        self.weight = torch.nn.Parameter(torch.zeros(16))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.01)
        self.stepped = now()

    def begin(self, number):
        begin = now()
        iterator = iter(self.loaders[number])
        self.log.add(span="iter", loader=number, begin=begin, end=now())
        return iterator

    def take(self, number, iterator):
        """False when the pass is over."""
        begin = now()
        try:
            made = next(iterator)
        except StopIteration:
            self.log.add(span="stop", loader=number, begin=begin, end=now())
            return False
        end = now()
        self.log.add(span="next", loader=number, begin=begin, end=end, **{k: made[k] for k in ("pid", "fetch", "batch")})
        return True

    def train(self):
        delay = self.log.delay()
        work(self.options.think_ms / 1e3, self.options.cpu)
        self.weight.grad = torch.ones(16)
        self.optimizer.step()
        end = now()
        self.log.add(span="step", begin=self.stepped, end=end, delay=self.log.delay() - delay)
        self.stepped = end

    def epoch(self):
        iterators = [self.begin(number) for number in range(len(self.loaders))]
        taken = 0
        while all([self.take(number, iterator) for number, iterator in enumerate(iterators)]):
            self.train()
            taken += 1
            if taken == self.options.stop_after:
                for number in range(len(self.loaders)):
                    self.log.add(span="left", loader=number)
                break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--file", type=Path, help="what small and mapped reads read")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--loaders", type=int, default=1, help="taken from in turns, in each step")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batches", type=int, default=40, help="in an epoch")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--stop-after", type=int, help="batches, then the epoch is left")
    parser.add_argument("--iterable", action="store_true")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--any-order", action="store_true")
    parser.add_argument("--read", choices=["slow", "small", "map"])
    parser.add_argument("--read-ms", type=float, default=8)
    parser.add_argument("--small-reads", type=int, default=100, help="a sample")
    parser.add_argument("--map-pages", type=int, default=20, help="a sample")
    parser.add_argument("--transform-ms", type=float, default=8)
    parser.add_argument("--collate-ms", type=float, default=3)
    parser.add_argument("--think-ms", type=float, default=6)
    parser.add_argument("--payload-kib", type=int, default=0)
    parser.add_argument("--spread", type=float, default=0, help="of a batch's cost, lognormal")
    parser.add_argument("--cpu", action="store_true", help="work uses a CPU instead of sleeping")
    options = parser.parse_args()

    torch.set_num_threads(1)
    consumer = Consumer(options)
    for _ in range(options.epochs):
        consumer.epoch()
    consumer.log.write()
    print(os.getpid())


if __name__ == "__main__":
    main()
