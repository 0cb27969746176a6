# SPDX-License-Identifier: Apache-2.0
import json
import time


class Clock:
    """Reads wall time, and how long this thread could have run and had no CPU (the kernel's own account)."""

    def __init__(self):
        self.marks = []

    def mark(self, step):
        with open("/proc/thread-self/schedstat") as account:
            self.marks.append((step, time.perf_counter(), int(account.read().split()[1]) / 1e9))

    def print(self):
        (first, began, delayed), (last, ended, delayed_at_end) = self.marks[0], self.marks[-1]
        seconds = ended - began
        print(json.dumps({"step_ms": seconds / (last - first) * 1e3, "run_delay_share": (delayed_at_end - delayed) / seconds}))
