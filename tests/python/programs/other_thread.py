# SPDX-License-Identifier: Apache-2.0
"""A thread that executes Python, computes in one call into C, and sleeps, next to a training thread, and writes down when it did
which."""

import hashlib
import json
import threading
import time

import torch

BLOCK = bytes(4_000_000)
optimizer = torch.optim.SGD([0.0])
log = []
is_over = threading.Event()


def count(until):
    number = 0
    while time.monotonic() < until:
        for value in range(2000):
            number += value & 3


def hash_blocks(until):  # a call of some 5 ms without the GIL
    while time.monotonic() < until - 0.02:
        hashlib.sha256(BLOCK)


def sleep(until):
    time.sleep(max(0, until - time.monotonic()))


def work_beside():
    while not is_over.is_set():
        for work in (count, hash_blocks, sleep):
            begin = time.monotonic_ns()
            work(time.monotonic() + 0.1)
            log.append([begin, time.monotonic_ns(), work.__name__])


thread = threading.Thread(target=work_beside)
thread.start()
end = time.monotonic() + 4
while time.monotonic() < end:
    hash_blocks(time.monotonic() + 0.03)
    optimizer.step(1.0)
is_over.set()
thread.join()
print(json.dumps({"log": log}))
