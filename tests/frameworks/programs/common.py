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
    """When each wait for a batch began and ended, also the last one, which finds none; CLOCK_MONOTONIC, in ns."""

    def __init__(self):
        self.spans = []

    def note(self, began):
        self.spans.append((began, time.monotonic_ns()))

    def around(self, batches):
        batches = iter(batches)
        while True:
            began = time.monotonic_ns()
            try:
                batch = next(batches)
            except StopIteration:
                return self.note(began)
            self.note(began)
            yield batch

    def timed(self, function):
        """`function` with its time noted: for loops that a framework runs itself."""

        def call(*arguments, **keywords):
            began = time.monotonic_ns()
            try:
                return function(*arguments, **keywords)
            finally:
                self.note(began)

        return call


def finish(waits, steps, **more):
    print(json.dumps({"waits": waits.spans, "steps": steps, **more}), flush=True)
