# SPDX-License-Identifier: Apache-2.0
"""A training loop that reads its files itself and logs, in ns of the clock the trace is mapped to, how long it took.

reader.py FOLDER: imports torch for an optimizer (evidence of training), then opens, stats and reads every file thrice.
"""

import json
import os
import sys
import time

import torch

folder = sys.argv[1]
parameter = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([parameter], lr=0.1)
log = []


def timed(what, function, *arguments):
    begin = time.monotonic_ns()
    result = function(*arguments)
    log.append({"what": what, "begin_ns": begin, "end_ns": time.monotonic_ns()})
    return result


optimizer.step()
for name in sorted(os.listdir(folder)) * 3:
    path = os.path.join(folder, name)
    size = timed("stat", os.stat, path).st_size
    fd = timed("open", os.open, path, os.O_RDONLY)
    data = timed("read", os.read, fd, size)
    log[-1]["bytes"] = len(data)
    os.close(fd)
    optimizer.step()
json.dump(log, sys.stdout)
