# SPDX-License-Identifier: Apache-2.0
"""A training loop in its own control groups: limited_job.py KEPT_MIB GROUP...

Joins the groups before the first step (recording starts with that), computes for more than a second, takes KEPT_MIB of
memory and computes again. Then leaves the groups, and prints what the kernel counted for it: CPU time, and the groups'
throttling before and after.
"""

import json
import os
import sys
import time

import torch


def join(group):
    with open(os.path.join(group, "cgroup.procs"), "w") as members:
        members.write(str(os.getpid()))


def throttling(group):
    """nr_throttled, throttled ns"""
    path = os.path.join(group, "cpu.stat")
    rows = dict(line.split() for line in open(path)) if os.path.exists(path) else {}
    ns = int(rows.get("throttled_time", 0)) or int(rows.get("throttled_usec", 0)) * 1000
    return int(rows.get("nr_throttled", 0)), ns


def train(optimizer, seconds):
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        optimizer.step()
        sum(range(20_000))
    optimizer.step()  # more than a second after the last sample, however busy the machine is


kept_mib, groups = int(sys.argv[1]), sys.argv[2:]
for group in groups:
    join(group)
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
before = [throttling(group) for group in groups]
train(optimizer, 1.2)
kept = b"x" * (kept_mib << 20)
train(optimizer, 1.2)
after = [throttling(group) for group in groups]
for group in groups:
    join(os.path.dirname(group))
stat = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
cpu_ns = (int(stat[11]) + int(stat[12])) * 10**7
affinity = len(os.sched_getaffinity(0))
json.dump({"cpu_ns": cpu_ns, "affinity": affinity, "before": before, "after": after}, sys.stdout)
