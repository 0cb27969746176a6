# SPDX-License-Identifier: Apache-2.0
"""What the programs of this folder share: data of known cost, a timer of their own, and the line of JSON they end with.
Knows nothing of gpuwatch. A loader's line is marked with `# loader`, so that a test can look it up."""

import json
import time

SAMPLE_MS = 2.0
SAMPLES, BATCH = 160, 8


def work(ms):
    """Stands for computing: nothing that another program could take away."""
    time.sleep(ms / 1e3)


class Waits:
    """Seconds inside each next(), the last one (StopIteration) apart."""

    def __init__(self):
        self.seconds = []
        self.ends = []

    def around(self, batches):
        batches = iter(batches)
        while True:
            began = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                self.ends.append(time.perf_counter() - began)
                return
            self.seconds.append(time.perf_counter() - began)
            yield batch

    def timed(self, function):
        """`function` with its time noted: for loops that a framework runs itself."""

        def call(*args, **keywords):
            began = time.perf_counter()
            try:
                result = function(*args, **keywords)
            except BaseException:
                self.ends.append(time.perf_counter() - began)
                raise
            self.seconds.append(time.perf_counter() - began)
            return result

        return call


def finish(waits, steps, **more):
    seconds = waits.seconds if isinstance(waits, Waits) else list(waits)
    print(json.dumps({"waits": seconds, "steps": steps, **more}), flush=True)
