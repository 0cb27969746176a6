# SPDX-License-Identifier: Apache-2.0
"""A training loop on the stand-in for PyTorch that stalls in many places, and logs of each stall when it was and what
the interpreter itself says of the stack: [begin_ns, end_ns, [file:line function, ...]]. A second thread stalls too, and
is no training thread."""

import asyncio
import inspect
import json
import os
import sys
import threading
import time

import torch

log = []


def name_of(code):
    """As a trace has it: from Python 3.11 on qualified, and with a star behind a generator's or a coroutine's."""
    if not hasattr(code, "co_qualname"):
        return code.co_name
    suspends = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return code.co_qualname + ("*" if code.co_flags & suspends else "")


def stall(milliseconds=3):
    frames = []
    # fmt: off
    frame = sys._getframe(); begin = time.monotonic_ns(); time.sleep(milliseconds / 1e3); end = time.monotonic_ns(); line = frame.f_lineno
    # fmt: on
    while frame and len(frames) < 16:
        frames.append(f"{frame.f_code.co_filename}:{line} {name_of(frame.f_code)}")
        frame = frame.f_back
        line = frame.f_lineno if frame else 0
    log.append([begin, end, frames])


def generator():
    stall()
    yield 1


class Größe:
    def __init__(self):
        stall()

    messe = staticmethod(lambda: stall())


async def coroutine():
    await asyncio.sleep(0)
    stall()


def recursive(depth):
    return recursive(depth - 1) if depth else stall()


def step():
    stall()
    list(generator())
    Größe.messe(), Größe()
    recursive(30)
    asyncio.new_event_loop().run_until_complete(coroutine())


class Samples:
    def __len__(self):
        return 24

    def __getitem__(self, index):
        stall()  # within next(), but there is no worker to wait for
        return float(index)


def elsewhere(stop):
    while not stop.wait(0.002):
        pass


stop = threading.Event()
other = threading.Thread(target=elsewhere, args=(stop,))
other.start()
optimizer = torch.optim.SGD([0.0])
for batch in torch.utils.data.DataLoader(Samples(), batch_size=4):
    optimizer.step(sum(batch))
    step()
stop.set()
other.join()
print(json.dumps({"log": log, "thread": threading.get_native_id(), "pid": os.getpid()}))
