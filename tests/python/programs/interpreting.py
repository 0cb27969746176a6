# SPDX-License-Identifier: Apache-2.0
"""A training thread that executes Python, computes in one call into C, and sleeps, and writes down when it did which."""

import json
import time

import torch

BIG = list(range(800_000, 0, -1))
optimizer = torch.optim.SGD([0.0])


def lines(until):
    count = 0
    while time.monotonic() < until:
        for value in BIG[:2000]:
            count += value & 3
    return count


def one_line(until):  # one instruction that calls, again and again
    kept = []
    for value in iter(time.monotonic, None):
        kept.append(value)
        if value >= until:
            return len(kept)


def one_call(until):
    while time.monotonic() < until - 0.05:
        sorted(BIG, key=float)


def sleep(until):
    time.sleep(until - time.monotonic())


log = []
end = time.monotonic() + 6
while time.monotonic() < end:
    for work in (lines, one_line, one_call, sleep):
        begin = time.monotonic_ns()
        work(time.monotonic() + 0.1)
        log.append([begin, time.monotonic_ns(), work.__name__])
        optimizer.step(1.0)
print(json.dumps({"log": log}))
