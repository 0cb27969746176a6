# SPDX-License-Identifier: Apache-2.0
"""Waits of the interpreter inside the next() of a loader with workers, where gpuwatch cuts them: how long time-outs
took, what ended a wait, and whether the handler of a signal ran while the thread still waited. One more wait by ctypes,
whose caller is not the interpreter."""

import ctypes
import json
import os
import select
import signal
import threading
import time

import torch

REPEATS, INTERRUPTIONS = 12, 15
handled_at = []


def timed(results, name, expected_s, wait):
    begin = time.monotonic_ns()
    result = wait()
    results.append([name, result, expected_s, (time.monotonic_ns() - begin) / 1e9])


def later(seconds, action):
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def interrupted(results, name, wait, end):
    """Signals at many moments, some of which fall into a look at the workers: each is handled before the wait ends."""
    for i in range(INTERRUPTIONS):
        handled_at.clear()
        ended = []
        timer = later(0.2, lambda: (ended.append(time.monotonic_ns()), end()))
        signal.setitimer(signal.ITIMER_REAL, 0.02 + i * 0.0055)
        result = wait()
        timer.join()
        results.append([f"{name} interrupted", [result, len(handled_at) == 1 and handled_at[0] < ended[0]], None, 0])


def polls(results):
    inside, outside = os.pipe()
    poll = select.poll()
    poll.register(inside, select.POLLIN)
    for timeout in (0, 1, 7, 160):
        for _ in range(REPEATS):
            timed(results, f"poll {timeout}", timeout / 1e3, lambda: poll.poll(timeout))
    interrupted(results, "poll", lambda: [poll.poll(5000), os.read(inside, 1)][0] != [], lambda: os.write(outside, b"x"))
    interrupted(results, "poll endless", lambda: [poll.poll(), os.read(inside, 1)][0] != [], lambda: os.write(outside, b"x"))
    fds = (ctypes.c_int * 2)(inside, 1)
    libc = ctypes.CDLL(None, use_errno=True)
    timed(results, "ctypes", 0.2, lambda: libc.poll(fds, 1, 200))


def locks(results):
    lock = threading.Lock()
    lock.acquire()
    for seconds in (0.003, 0.16):
        for _ in range(REPEATS):
            timed(results, f"lock {seconds}", seconds, lambda: lock.acquire(timeout=seconds))
    interrupted(results, "lock", lambda: lock.acquire(timeout=5), lock.release)


class Samples:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return float(index)


results = []
signal.signal(signal.SIGALRM, lambda *_: handled_at.append(time.monotonic_ns()))
iterator = iter(torch.utils.data.DataLoader(Samples(), batch_size=2, num_workers=2))
inner = type(iterator)._next_data


def next_data():
    polls(results)
    locks(results)
    return inner(iterator)


iterator._next_data = next_data
next(iterator)
del iterator._next_data
print(json.dumps({"results": results, "left": sum(1 for _ in iterator)}))
