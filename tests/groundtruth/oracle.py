# SPDX-License-Identifier: Apache-2.0
"""Where each nanosecond of a workload's steps went, from the simulated device's ground truth and the program's own log.

Independent of the analyzer: it knows every device operation's exact times, every call into CUDA, and from the program
itself what a thread was doing in between. It merges them by the definitions of docs/attribution.md:

  device busy    a compute kernel runs; else a collective; else copies, by direction
  device idle    cut by what the thread that launches the next operation was doing; from that launch call's return to the
                 operation's start: `device.launch_gap`
  sync           idle in which the host was launching (calls, and code between them), for as long as it had before been
                 waiting in the synchronisation that let the device run dry

    python oracle.py truth.jsonl phases.jsonl
"""

import bisect
import json
import sys
from collections import defaultdict

COPIES = {"copy.h2d": "copy.h2d", "copy.d2h": "copy.d2h", "copy.d2d": "copy.d2d", "copy.p2p": "copy.d2d", "memset": "copy.d2d"}
SYNCS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cuCtxSynchronize", "cuStreamSynchronize")
ALLOCATIONS = ("cudaMalloc", "cudaHostAlloc", "cudaHostRegister", "cudaFree", "cudaHostUnregister", "cuMemAlloc", "cuMemFree")
GRAPH_BUILDING = ("cudaGraphInstantiate", "cudaStreamBeginCapture", "cudaStreamEndCapture")
FEEDING = ("launch.api", "launch.dispatch", "device.launch_gap")
# What a program's phase means for time outside of CUDA calls.
PHASES = {"launch": "launch.dispatch", "copy": "launch.dispatch", "metrics": "host.compute", "write": "checkpoint", "step": "launch.dispatch"}
LAUNCH_GAP_NS = 10_000  # longer idle before an operation that was launched in time is a dependency


class Timeline:
    """Intervals of one thread, nested or disjoint; finds the innermost at a time."""

    def __init__(self, intervals):
        self.intervals = sorted(intervals, key=lambda i: (i["begin"], -i["end"]))
        self.begins = [i["begin"] for i in self.intervals]

    def at(self, time):
        """The innermost interval that holds `time`, or None. Looks back only as far as intervals can nest."""
        position = bisect.bisect_right(self.begins, time)
        for interval in reversed(self.intervals[max(0, position - 16) : position]):
            if interval["begin"] <= time < interval["end"]:
                return interval
        return None

    def edges(self, begin, end):
        found = {begin, end}
        low = max(0, bisect.bisect_left(self.begins, begin) - 16)
        for interval in self.intervals[low : bisect.bisect_left(self.begins, end)]:
            found.update(t for t in (interval["begin"], interval["end"]) if begin < t < end)
        return found


def read_lines(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.strip()]


class Oracle:
    def __init__(self, truth_path, phases_path, skip_first=2, skip_last=1):
        truth, phases = read_lines(truth_path), read_lines(phases_path)
        self.ops = sorted((t for t in truth if t["type"] == "op" and t["kind"] not in ("marker", "host_function", "graph")),
                          key=lambda op: op["start"])
        self.starts = [op["start"] for op in self.ops]
        host = [t for t in truth if t["type"] == "host"]
        self.calls = {tid: Timeline(c) for tid, c in group(host, "tid").items()}
        self.call_of = {(c["corr"]): c for c in host if c.get("corr")}
        self.phases = {tid: Timeline(p) for tid, p in group(phases, "tid").items()}
        steps = sorted((p for p in phases if p["phase"] == "step"), key=lambda p: p["begin"])
        self.steps = steps[skip_first : len(steps) - skip_last]
        self.trainer = self.steps[0]["tid"]
        self.op_of = {op["corr"]: op for op in self.ops}
        self.producers = [tid for tid, t in self.phases.items() if any(i["phase"] == "prepare" for i in t.intervals)]

    def attribute(self):
        """{category: ns} over the program's steps."""
        begin, end = self.steps[0]["begin"], self.steps[-1]["end"]
        self.totals = defaultdict(int)
        for a, b, running in self.device_states(begin, end):
            if running:
                self.totals[running] += b - a
            else:
                self.idle(a, b)
        assert sum(self.totals.values()) == end - begin
        return dict(self.totals), end - begin

    def device_states(self, begin, end):
        """(from, to, category or None) tiling [begin, end)."""
        edges = []
        for op in self.ops:
            category = COPIES.get(op["kind"]) or ("comm.unsplit" if "nccl" in op.get("name", "") else "compute")
            a, b = max(op["start"], begin), min(op["end"], end)
            if a < b:
                edges += [(a, 1, category), (b, -1, category)]
        edges.sort()
        active, last = defaultdict(int), begin
        order = ("compute", "comm.unsplit", "copy.h2d", "copy.d2h", "copy.d2d")
        merged = []
        for time, change, category in [*edges, (end, 0, "compute")]:
            if time > last:
                state = next((c for c in order if active[c]), None)
                if merged and merged[-1][2] == state:
                    merged[-1] = (merged[-1][0], time, state)
                else:
                    merged.append((last, time, state))
                last = time
            active[category] += change
        return merged

    def idle(self, a, b):
        op = self.next_op(b)
        call = self.call_of.get(op["corr"]) if op else None
        tid = call["tid"] if call else self.trainer
        launched = min(call["end"], b) if call else b
        if launched <= a:
            same_stream = self.previous_stream(a) == op["stream"]
            self.totals["device.launch_gap" if same_stream and b - a <= LAUNCH_GAP_NS else "device.dependency"] += b - a
            return
        budget = self.drain_budget(tid, a)
        budget = self.walk(tid, a, launched, budget)
        self.feed("device.launch_gap", b - launched, budget)

    def next_op(self, time):
        position = bisect.bisect_left(self.starts, time)
        return self.ops[position] if position < len(self.ops) else None

    def previous_stream(self, time):
        started = bisect.bisect_right(self.starts, time)
        ended = [op for op in self.ops[max(0, started - 64) : started] if op["end"] <= time]
        return max(ended, key=lambda op: op["end"])["stream"] if ended else None

    def drain_budget(self, tid, time):
        """How long the host had been waiting in the synchronising call that it was in when the device ran dry."""
        call = self.calls[tid].at(time)
        if call and (call["api"].startswith(SYNCS) or self.is_small_read(call)):
            return time - call["begin"]
        return 0

    def is_small_read(self, call):
        op = self.op_of.get(call.get("corr"))
        return bool(op) and op["kind"] == "copy.d2h" and op["bytes"] <= 65536

    def feed(self, category, length, budget):
        if category in FEEDING:
            part = min(length, budget)
            self.totals["sync"] += part
            self.totals[category] += length - part
            return budget - part
        self.totals[category] += length
        return budget

    def walk(self, tid, begin, end, budget):
        calls, phases = self.calls[tid], self.phases.get(tid, Timeline([]))
        edges = sorted(calls.edges(begin, end) | phases.edges(begin, end))
        for a, b in zip(edges, edges[1:]):
            call, phase = calls.at(a), phases.at(a)
            if call:
                budget = self.feed(self.of_call(call), b - a, budget)
            elif phase and phase["phase"] == "data_wait":
                self.data_wait(a, b)
            else:
                budget = self.feed(PHASES.get(phase["phase"] if phase else "step", "host.compute"), b - a, budget)
        return budget

    def of_call(self, call):
        api, op = call["api"], self.op_of.get(call.get("corr"))
        if api.startswith(SYNCS) or self.is_small_read(call):
            return "sync"
        if api.startswith(("cudaMemcpy", "cuMemcpy")):
            return "copy.staging" if op and op["kind"] == "copy.h2d" and op["src"] == "pageable" else "launch.api"
        if api.startswith(ALLOCATIONS):
            return "alloc"
        if api.startswith(GRAPH_BUILDING):
            return "compile"
        return "launch.api"

    def data_wait(self, begin, end):
        """The consumer waits: is a producer preparing a batch?"""
        edges = sorted(set().union(*(self.phases[tid].edges(begin, end) for tid in self.producers)) | {begin, end})
        for a, b in zip(edges, edges[1:]):
            busy = any((self.phases[tid].at(a) or {}).get("phase") == "prepare" for tid in self.producers)
            self.totals["input.transform" if busy else "input.no_prefetch"] += b - a


def group(items, key):
    grouped = defaultdict(list)
    for item in items:
        grouped[item[key]].append(item)
    return grouped


if __name__ == "__main__":
    totals, wall = Oracle(*sys.argv[1:3]).attribute()
    for category, ns in sorted(totals.items(), key=lambda item: -item[1]):
        print(f"{category:20} {ns / 1e6:10.3f} ms {ns / wall:7.2%}")
    print(f"{'total':20} {wall / 1e6:10.3f} ms")
