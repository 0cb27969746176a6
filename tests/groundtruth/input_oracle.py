# SPDX-License-Identifier: Apache-2.0
"""What a data wait consisted of, from the logs of programs/logged_loader.py alone.

Independent of the analyzer: it knows from the program when each batch's index was given out, and from the dataset what the
worker was doing. It merges them by the definitions of docs/attribution.md, layer 3. A program cannot see when its batch
left the queue, so handing over and waking up are one: `handover`. Where it does not know when an index was sent (iterable
datasets), being idle is part of that, too.

    python input_oracle.py FOLDER 5 35
"""

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

HANDOVER = ("input.transfer", "input.wakeup")
IDLE = ("input.no_prefetch", "input.startup")


@dataclass
class Fetch:
    begin: int = 0
    end: int = 0
    spans: list = field(default_factory=list)


@dataclass
class Asked:
    """A batch that was asked for: its index went out at `sent` and `fetch` made it."""

    sent: int
    worker: int
    fetch: Fetch


class InputOracle:
    def __init__(self, folder, in_order=True, reads_maps=False):
        self.in_order, self.reads_maps = in_order, reads_maps
        self.fetches = defaultdict(dict)  # pid -> ordinal -> Fetch
        self.consumer = []
        for path in sorted(Path(folder).glob("*.jsonl")):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for line in lines:
                if "fetch" in line and line["span"] != "next":
                    fetch = self.fetches[int(path.stem)].setdefault(line["fetch"], Fetch(line["begin"]))
                    fetch.spans.append(line)
                    fetch.end = line["end"]
            if any(line["span"] == "step" for line in lines):
                self.consumer, self.pid = lines, int(path.stem)
        self.steps = [line for line in self.consumer if line["span"] == "step"]
        self.knows_sent = any(line["span"] == "yield" for line in self.consumer)
        self.passes = self.read_passes()

    def read_passes(self):
        """(loader, pass number) -> {batch: Asked}, from what was given out and what came back."""
        passes, number = defaultdict(dict), defaultdict(int)
        sent = {}
        for line in self.consumer:
            key = (line.get("loader"), number[line.get("loader")])
            if line["span"] == "yield":
                sent[(*key, line["batch"])] = line["end"]
            elif line["span"] == "next":
                line["pass"] = key
                fetch = self.fetches[line["pid"]][line["fetch"]]
                passes[key][line["batch"]] = Asked(sent.get((*key, line["batch"]), 0), line["pid"], fetch)
            elif line["span"] in ("stop", "left"):  # the next pass begins within iter(), which asks for batches
                number[line["loader"]] += 1
        self.add_unwanted(passes, sent)
        return passes

    def add_unwanted(self, passes, sent):
        """Batches that were made, and not taken before their pass was left: by workers that lived for one pass only."""
        passes_of = defaultdict(set)
        for key, batches in passes.items():
            for asked in batches.values():
                passes_of[asked.worker].add(key)
        for pid, keys in passes_of.items():
            key = min(keys)
            for fetch in self.fetches[pid].values() if len(keys) == 1 else ():
                batch = fetch.spans[-1].get("batch")
                if (*key, batch) in sent and batch not in passes[key]:
                    passes[key][batch] = Asked(sent[(*key, batch)], pid, fetch)

    def attribute(self, first, last):
        """({category: ns}, wall) over steps [first, last)."""
        begin, end = self.steps[first]["begin"], self.steps[last - 1]["end"]
        self.totals = defaultdict(int)
        for line in self.consumer:
            if line["span"] not in ("next", "iter", "stop"):
                continue
            a, b = max(line["begin"], begin), min(line["end"], end)
            if a >= b:
                continue
            if line["span"] == "next":
                self.wait(line, a, b)
            else:
                self.totals["input.startup" if line["span"] == "iter" else "phase"] += b - a
        return dict(self.totals), end - begin

    def starved_training_ns(self, first, last):
        """How long the training itself was runnable without a CPU."""
        return sum(step["delay"] for step in self.steps[first:last])

    def wait(self, line, begin, end):
        """The consumer waited for this batch from `begin` to `end`."""
        fetches = self.fetches[line["pid"]]
        fetch = fetches[line["fetch"]]
        cursor = begin

        def until(time, category):
            nonlocal cursor
            if time > cursor:
                stop = min(time, end)
                self.totals[category] += max(0, stop - cursor)
                cursor = max(cursor, stop)

        if line["pid"] != self.pid:
            before = fetches.get(line["fetch"] - 1)
            asked = self.passes[line["pass"]][line["batch"]]
            if before is None:
                until(fetch.begin, "input.startup")
            elif self.knows_sent:
                until(asked.sent, "input.no_prefetch")
                until(fetch.begin, "input.no_prefetch" if asked.sent > before.end else "input.transfer")
            else:
                until(fetch.begin, "input.transfer")
            alone = self.alone_since(line, asked)
        else:
            alone = fetch.end
        self.making(fetch, until, alone)
        until(alone, "input.transform")
        until(fetch.end, "input.head_of_line")
        until(end, "input.transfer")

    def alone_since(self, line, asked):
        """Since when every other worker had made all that it was asked for, with something waiting behind this batch."""
        if not self.in_order or not self.knows_sent:
            return asked.fetch.end
        others = [
            other.fetch.end
            for batch, other in self.passes[line["pass"]].items()
            if batch > line["batch"] and other.sent < asked.fetch.end and other.worker != asked.worker
        ]
        return min(max(others), asked.fetch.end) if others else asked.fetch.end

    def making(self, fetch, until, end):
        """By what the dataset said; within a span what it only knows as a sum is spread evenly."""
        for span in fetch.spans:
            until(min(span["begin"], end), "input.transform")
            length = max(1, span["end"] - span["begin"])
            delay, io = min(span["delay"], length), min(span["io"], length)
            category = {"read": "input.transform", "transform": "input.transform", "collate": "input.collate"}[span["span"]]
            before = dict(self.totals)
            until(min(span["end"], end), category)
            counted = self.totals[category] - before.get(category, 0)
            if span["span"] == "read" and not self.reads_maps:
                # A thread that wakes from a read and waits for a CPU is, for the caller, still in the read.
                delay = delay * (length - io) // length
            for amount, other in ((io, "input.io"), (delay, "input.cpu_starved")):
                part = counted * amount // length
                self.totals[category] -= part
                self.totals[other] += part


def merged(totals, merge_idle=False):
    """Categories that the program cannot tell apart made one."""
    names = HANDOVER + (IDLE if merge_idle else ())
    result = defaultdict(int)
    for category, ns in totals.items():
        result["handover" if category in names else category] += ns
    return result


if __name__ == "__main__":
    totals, wall = InputOracle(sys.argv[1]).attribute(int(sys.argv[2]), int(sys.argv[3]))
    for category, ns in sorted(totals.items(), key=lambda item: -item[1]):
        print(f"{category:20} {ns / 1e6:10.3f} ms {ns / wall:7.2%}")
    print(f"{'total':20} {wall / 1e6:10.3f} ms")
