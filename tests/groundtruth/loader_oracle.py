# SPDX-License-Identifier: Apache-2.0
"""What a step of programs/timed_loader.py takes under another setting, from the log of the very same run alone.

Independent of the analyzer: the DataLoader's protocol (indices dealt out in turn, batches taken in order, a bounded number
on their way) as one recurrence over times. Nobody can say what other programs of the machine would have taken from the run
under the other setting, so there are two answers: with the times that the script asked for and the smallest latencies of
the log, and with the times and the mean latencies that it got. On a machine of its own they are the same.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean


@dataclass
class Times:
    """Seconds of each batch."""

    fetch: list
    train: list
    start: list  # from when the worker could have begun to when it did
    arrive: list  # from when a batch was ready, and asked for, to when it was there

    def step_ms(self, workers, prefetch):
        """Mean from the first batch worked off to the last."""
        sent, free, done = [0.0] * (workers * prefetch), [0.0] * workers, [0.0]
        for batch, fetch in enumerate(self.fetch):
            worker = batch % workers
            free[worker] = max(free[worker], sent[batch]) + self.start[batch] + fetch
            came = max(free[worker], done[-1]) + self.arrive[batch]
            sent.append(came)  # each batch that comes sends one more index
            done.append(came + self.train[batch])
        return (done[-1] - done[1]) / (len(done) - 2) * 1e3


class LoaderOracle:
    """asked, got, done: of each batch in the order of training, seconds on the clock of the log."""

    def __init__(self, log, run, batch_size, think_s, asked, got, done):
        workers, prefetch = run
        samples = defaultdict(list)
        for line in Path(log).read_text().splitlines():
            index, began, ended, cost = json.loads(line)
            samples[index // batch_size].append((began, ended, cost))
        count = len(done)
        began, ended, cost = (
            [of(column) for column in (list(zip(*samples[batch]))[at] for batch in range(count))]
            for at, of in enumerate((min, max, sum))
        )
        start = [0.0] * count  # the first ones start their workers
        for batch in range(workers * prefetch, count):
            start[batch] = began[batch] - max(got[batch - workers * prefetch], ended[batch - workers])
        arrive = [came - max(ready, ask) for ready, ask, came in zip(ended, asked, got)]
        fetch = [end - begin for begin, end in zip(began, ended)]
        train = [end - begin for begin, end in zip(got, [*asked[1:], done[-1]])]
        self.logged = Times(fetch, train, start, arrive)
        latencies = start[workers * prefetch :], arrive
        self.disturbed = Times(fetch, train, *([mean(latency)] * count for latency in latencies))
        self.undisturbed = Times(cost, [think_s] * count, *([min(latency)] * count for latency in latencies))
