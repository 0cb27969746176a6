# SPDX-License-Identifier: Apache-2.0
"""An I/O benchmark in the manner of MLPerf Storage: a loader reads real files, computing is emulated by sleeping, and what is
reported is the accelerator's utilisation: computing over all time, without the first step. Knows nothing of gpuwatch.

Prints JSON: {"au": share, "steps": n, "total_s": seconds, "excluded_s": seconds of the first step}
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    """Files of fixed-size records, each read whole and gone through once."""

    def __init__(self, folder, record_ms):
        self.paths = sorted(folder.glob("*.rec"))
        self.record_ms = record_ms

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        descriptor = os.open(self.paths[index], os.O_RDONLY)
        data = bytearray(os.read(descriptor, os.fstat(descriptor).st_size))
        os.close(descriptor)
        time.sleep(self.record_ms / 1e3)
        return torch.frombuffer(data, dtype=torch.uint8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--record-ms", type=float, default=15)
    parser.add_argument("--compute-ms", type=float, default=25)
    options = parser.parse_args()

    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    loader = DataLoader(
        Records(options.folder, options.record_ms),
        options.batch_size,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    computed, ends = [], []
    began = time.perf_counter()
    for _ in range(options.epochs):
        for _ in loader:
            before = time.perf_counter()
            time.sleep(options.compute_ms / 1e3)
            optimizer.step()
            ends.append(time.perf_counter())
            computed.append(ends[-1] - before)
    total = ends[-1] - began
    excluded = ends[0] - began
    au = sum(computed[1:]) / (total - excluded)
    print(json.dumps({"au": au, "steps": len(ends), "total_s": total, "excluded_s": excluded}))


if __name__ == "__main__":
    main()
