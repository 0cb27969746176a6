# SPDX-License-Identifier: Apache-2.0
"""Waits inside the next() of a loader with workers, where gpuwatch waits in slices: what each of them answers, and how
long it took. Results must be the same as without gpuwatch. Called through ctypes: Python itself hides interruptions."""

import ctypes
import errno
import json
import os
import signal
import threading
import time

import torch

libc = ctypes.CDLL(None, use_errno=True)
REPEATS = 12
MARK = 77  # errno before a call; a call that succeeds leaves it


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class PollFd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


def after(seconds, clock):
    ns = time.clock_gettime_ns(clock) + int(seconds * 1e9)
    return Timespec(ns // 10**9, ns % 10**9)


def later(seconds, action):
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def timed(results, name, expected_s, wait):
    ctypes.set_errno(MARK)
    begin = time.monotonic_ns()
    result = wait()
    took = (time.monotonic_ns() - begin) / 1e9
    results.append([name, result, errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno()), expected_s, took])


def polls(results):
    inside, outside = os.pipe()
    fds = (PollFd * 1)(PollFd(inside, 1, 0))
    for timeout in (0, 1, 7, 60, 160):
        for _ in range(REPEATS):
            timed(results, f"poll {timeout}", timeout / 1e3, lambda: libc.poll(fds, 1, timeout))
    for timeout in (-1, 5000):
        timer = later(0.15, lambda: os.write(outside, b"x"))
        timed(results, f"poll {timeout} ready", 0.15, lambda: (libc.poll(fds, 1, timeout), fds[0].revents))
        timer.join()
        os.read(inside, 1)
    signal.setitimer(signal.ITIMER_REAL, 0.15)
    timed(results, "poll interrupted", 0.15, lambda: libc.poll(fds, 1, 5000))
    timed(results, "poll of what is no descriptor", None, lambda: (libc.poll((PollFd * 1)(PollFd(987, 1, 0)), 1, 500)))


def semaphores(results):
    sem = ctypes.create_string_buffer(64)
    libc.sem_init(sem, 0, 0)
    ways = {
        "sem_timedwait": (time.CLOCK_REALTIME, lambda until: libc.sem_timedwait(sem, ctypes.byref(until))),
        "sem_clockwait monotonic": (time.CLOCK_MONOTONIC, lambda until: libc.sem_clockwait(sem, 1, ctypes.byref(until))),
        "sem_clockwait realtime": (time.CLOCK_REALTIME, lambda until: libc.sem_clockwait(sem, 0, ctypes.byref(until))),
    }
    for name, (clock, wait) in ways.items():
        for seconds in (0, 0.003, 0.16):
            for _ in range(REPEATS):
                timed(results, f"{name} {seconds}", seconds, lambda: wait(after(seconds, clock)))
        timer = later(0.15, lambda: libc.sem_post(sem))
        timed(results, f"{name} posted", 0.15, lambda: wait(after(5, clock)))
        timer.join()
        libc.sem_post(sem)
        timed(results, f"{name} in the past, posted", None, lambda: wait(after(-1, clock)))
        signal.setitimer(signal.ITIMER_REAL, 0.15)
        timed(results, f"{name} interrupted", 0.15, lambda: wait(after(5, clock)))
        timed(results, f"{name} no time", None, lambda: wait(Timespec(10**9, -1)))
        timed(results, f"{name} before 1970", None, lambda: wait(Timespec(-5, 0)))


class Samples:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return float(index)


def run(kind, results):
    iterator = iter(torch.utils.data.DataLoader(Samples(), batch_size=2, num_workers=2))
    inner = type(iterator)._next_data

    def next_data():
        polls(results)
        semaphores(results)
        return inner(iterator)

    iterator._next_data = next_data
    next(iterator)
    del iterator._next_data
    return sum(1 for _ in iterator)


signal.signal(signal.SIGALRM, lambda *_: None)
results = []
left = run("poll", results)
print(json.dumps({"results": results, "left": left}))
