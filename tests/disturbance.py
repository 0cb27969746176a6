# SPDX-License-Identifier: Apache-2.0
"""What others took of the CPUs of the machine that the tests run on, for tests that compare times."""

import os
import time
from dataclasses import dataclass

# Of one CPU. A hand-over between two processes then takes milliseconds now and then, which a healthy machine never shows.
STOLEN = 0.01
TICK_S = 1 / os.sysconf("SC_CLK_TCK")  # what the kernel counts stolen time in, for each CPU
PROVES_NOTHING = 0.05  # stolen: times that do not agree may be right
STOLEN_SHARE = "stolen_share"  # property of a test's report: what was stolen while its program ran
FOREIGN = 0.05


@dataclass
class Reading:
    wall_s: float
    busy_s: float
    stolen_s: float
    own_s: float


def read():
    with open("/proc/stat") as lines:
        ticks = [int(word) for word in lines.readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (count * TICK_S for count in ticks)
    return Reading(time.monotonic(), user + nice + system + irq + softirq, steal, sum(os.times()[:4]))


@dataclass
class Taken:
    """Shares of one CPU: by the machine's host, and by processes that are neither this one nor children that it waited for."""

    stolen: float
    foreign: float
    stolen_s: float  # CPU time

    @property
    def matters(self):
        return self.stolen >= STOLEN or self.foreign >= FOREIGN

    def __str__(self):
        return f"meanwhile the machine's host took {100 * self.stolen:.0f} % of a CPU, other processes {100 * self.foreign:.0f} %"


class Disturbance:
    """Measures from its making on."""

    def __init__(self):
        self.began = read()

    def so_far(self):
        began, now = self.began, read()
        wall_s = now.wall_s - began.wall_s
        foreign_s = now.busy_s - began.busy_s - (now.own_s - began.own_s)
        stolen_s = now.stolen_s - began.stolen_s
        return Taken(stolen_s / wall_s, max(0.0, foreign_s) / wall_s, stolen_s)
