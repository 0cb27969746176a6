# SPDX-License-Identifier: Apache-2.0
"""A loader whose workers log which function ran when: decode() sleeps, augment() computes. Prints the log of all workers
as {pid: [[begin_ns, end_ns, function], ...]}."""

import json
import os
import sys
import tempfile
import time


def decode():
    time.sleep(0.012)


def augment():
    until = time.thread_time() + 0.004
    while time.thread_time() < until:
        sum(range(100))


class Samples:
    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return 240

    def __getitem__(self, index):
        t0 = time.monotonic_ns()
        decode()
        t1 = time.monotonic_ns()
        augment()
        t2 = time.monotonic_ns()
        with open(os.path.join(self.folder, str(os.getpid())), "a") as log:
            log.write(json.dumps([[t0, t1, "decode"], [t1, t2, "augment"]]) + "\n")
        return float(index)


def main(context):
    import torch

    with tempfile.TemporaryDirectory() as folder:
        loader = torch.utils.data.DataLoader(
            Samples(folder), batch_size=4, num_workers=2, multiprocessing_context=context
        )
        batches = sum(1 for _ in loader)
        log = {}
        for pid in os.listdir(folder):
            lines = open(os.path.join(folder, pid)).readlines()
            log[pid] = [entry for line in lines for entry in json.loads(line)]
        print(json.dumps({"batches": batches, "log": log}))


if __name__ == "__main__":
    main(sys.argv[1])
