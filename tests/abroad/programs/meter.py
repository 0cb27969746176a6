# SPDX-License-Identifier: Apache-2.0
"""The programs' own clock: wall time over whole steps, everything between them included."""

import json
import time


class Meter:
    """Starts after `warmup` steps. `synchronize` waits for a device, once at the start and once at the end."""

    def __init__(self, warmup=20, samples=1, synchronize=lambda: None):
        self.warmup, self.samples, self.synchronize = warmup, samples, synchronize
        self.steps, self.began = 0, None

    def step(self):
        self.steps += 1
        if self.steps == self.warmup:
            self.synchronize()
            self.began = time.perf_counter()

    def print(self):
        self.synchronize()
        steps = self.steps - self.warmup
        step_ms = (time.perf_counter() - self.began) / steps * 1e3
        print(json.dumps({"step_ms": round(step_ms, 4), "steps": steps, "samples_per_s": round(self.samples / step_ms * 1e3, 2)}), flush=True)
