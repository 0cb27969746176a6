# SPDX-License-Identifier: Apache-2.0
"""A training script that reads its samples from files of a folder, or from a server."""

import argparse
import os
import socket

import torch
from torch.utils.data import DataLoader, Dataset
from training import Model


class Files(Dataset):
    """Sample `index` is the file of that number, or that part of the only file."""

    def __init__(self, folder, sample_bytes):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.sample_bytes = sample_bytes
        self.in_file = max(1, os.path.getsize(self.paths[0]) // sample_bytes)
        self.opened = None

    def __len__(self):
        return len(self.paths) * self.in_file

    def __getitem__(self, index):
        if self.in_file == 1:
            fd = os.open(self.paths[index], os.O_RDONLY)
            data = os.read(fd, self.sample_bytes)
            os.close(fd)
        else:
            if self.opened is None:
                self.opened = [os.open(path, os.O_RDONLY) for path in self.paths]
            which, part = divmod(index, self.in_file)
            data = os.pread(self.opened[which], self.sample_bytes, part * self.sample_bytes)
        return torch.frombuffer(bytearray(data[:64]), dtype=torch.uint8)


class Cached(Files):
    """Every sample is read once, before the workers start."""

    def __init__(self, folder, sample_bytes):
        super().__init__(folder, sample_bytes)
        self.samples = [super(Cached, self).__getitem__(index) for index in range(len(self))]

    def __getitem__(self, index):
        return self.samples[index]


class Served(Dataset):
    """Samples come from a server: a request a sample, over one connection a worker."""

    def __init__(self, port, count):
        self.port, self.count, self.connection = port, count, None

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.connection is None:
            self.connection = socket.create_connection(("127.0.0.1", self.port))
        self.connection.sendall(index.to_bytes(4, "little"))
        data = b""
        while len(data) < 64:
            data += self.connection.recv(64 - len(data))
        return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", help="a folder, or the port of a server on this machine")
    parser.add_argument("--sample-bytes", type=int, default=16384)
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--train-ms", type=float, default=10)
    options = parser.parse_args()

    model = Model(options.train_ms)
    if options.source.isdigit():
        dataset = Served(int(options.source), 160)
    else:
        dataset = (Cached if options.cache else Files)(options.source, options.sample_bytes)
    loader = DataLoader(
        dataset, options.batch_size, num_workers=options.workers, prefetch_factor=2 if options.workers else None,
        persistent_workers=options.workers > 0,
    )  # fmt: skip
    for _ in range(options.epochs):
        for batch in loader:
            model.step(batch)
    model.print_times()


if __name__ == "__main__":
    main()
