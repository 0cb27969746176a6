# SPDX-License-Identifier: Apache-2.0
"""A training thread that logs which function it was in, and forks now and then. Prints the log, what threads of
gpuwatch's were there before each fork and right after it, and the warnings of forking."""

import json
import os
import sys
import time
import warnings


def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(200))


def tokenize():
    burn(0.006)


def measure():
    burn(0.018)


def own_threads():
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as comm:
                names.append(comm.read().strip())
        except OSError:
            pass  # it has just ended
    return names.count("gpuwatch")


def main():
    import torch

    optimizer = torch.optim.SGD([0.0])
    log, forks = [], []
    after = []
    os.register_at_fork(after_in_parent=lambda: after.append(own_threads()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.monotonic()
        while len(forks) < 3 or time.monotonic() < begin + 4:
            for function in (tokenize, measure):
                t0 = time.monotonic_ns()
                function()
                log.append([t0, time.monotonic_ns(), function.__name__])
            optimizer.step(1.0)
            if time.monotonic() < begin + 1.3 * (len(forks) + 1):
                continue
            before = own_threads()
            child = os.fork()
            if child == 0:
                os._exit(own_threads())
            forks.append([before, after[-1], os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])])
    told = {"log": log, "forks": forks, "warnings": [str(one.message) for one in caught], "pid": os.getpid()}
    print(json.dumps(told))


if __name__ == "__main__":
    sys.exit(main())
