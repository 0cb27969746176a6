# SPDX-License-Identifier: Apache-2.0
"""Every mode of PyTorch's DataLoader on real PyTorch, batch by batch: what the trace says of an index sent, a fetch, a
pinning and a next() against the log that the program itself wrote (programs/modes.py), on the same clock."""

import bisect
import json
import sys
from collections import defaultdict

import pytest
from conftest import PROGRAMS

pytestmark = pytest.mark.beside_others

BATCH = 4
CLOCK_NS = 20_000  # a tick's time is known through clock samples, each in a bracket of its own
WORKERLESS = {"inline", "zipped inline", "error inline", "short-lived", "crowd", "stream inline", "without batches, inline", "pinned inline"}

# way: (iterators constructed or reset, batches returned by next(), instances of all loaders)
WAYS = {
    "inline": (1, 8, [0]),
    "workers": (1, 8, [0]),
    "zipped": (2, 16, [0, 1]),
    "zipped inline": (2, 16, [0, 1]),
    "iterated within itself": (4, 9, [0, 1]),
    "kept alive": (2, 16, [0, 1]),
    "early break": (4, 17, [0]),
    "early break, persistent": (4, 17, [0]),
    "error in worker": (1, 7, [0]),
    "error inline": (1, 7, [0]),
    "worker killed": (2, None, [0, 0]),
    "several loaders": (6, 24, [0, 0]),
    "nested inline": (1 + 8, 2 + 16, [0, 0]),
    "nested in worker": (1 + 8, 2 + 16, [0] * 3),  # the inner one in each of two processes
    "short-lived": (300, 300, [0]),
    "persistent": (5, 40, [0]),
    "out of order": (1, 8, [0]),
    "uneven stream": (1, 3 + 6, [0]),
    "stream inline": (1, 3, [0]),
    "without batches": (1, 12, [0]),
    "without batches, inline": (1, 12, [0]),
    "own batches": (1, 8, [0]),
    "files": (1, 4, [0]),
    "wrapped dataset": (1, 8, [0]),
    "timeout": (1, 8, [0]),
    "fork": (1, 8, [0]),
    "spawn": (1, 8, [0]),
    "forkserver": (1, 8, [0]),
    "in threads": (2, 16, [0, 0]),
    "pinned": (3, 19, [0]),
    "pinned inline": (3, 19, [0]),
    "pinned, persistent": (3, 19, [0]),
    "pinned, error": (1, 7, [0]),
    "pinned stream": (1, 9, [0]),
}


class Log:
    def __init__(self, path):
        self.events = [json.loads(line) for line in path.read_text().splitlines()]

    def of(self, event):
        return sorted((e for e in self.events if e["event"] == event), key=lambda e: e["begin"])


@pytest.fixture
def run_way(run_watched, tmp_path):
    def run(way):
        watched = run_watched([sys.executable, PROGRAMS / "modes.py", way, tmp_path / "log"])
        assert (watched.returncode, watched.stdout, watched.stderr) == (0, "", "")
        return watched.trace, Log(tmp_path / "log")

    return run


def test_more_iterators_than_are_remembered(run_way):
    """Those that gave their place to another are timed like all, without a loader's name."""
    trace, log = run_way("crowd")
    calls, events = trace.calls("LoaderNext"), log.of("next")
    assert len(calls) == len(events) == 200
    assert all(inside(call, event) for call, event in zip(calls, events))
    assert sum(call.a != 0 for call in calls) >= 128


def inside(call, event):
    return event["begin"] - CLOCK_NS <= call.begin_ns and call.end_ns <= event["end"] + CLOCK_NS


def around(call, event):
    return call.begin_ns <= event["begin"] + CLOCK_NS and event["end"] - CLOCK_NS <= call.end_ns


def by_thread(calls):
    threads = defaultdict(list)
    for call in calls:
        threads[call.pid, call.thread].append(call)
    return threads


@pytest.mark.parametrize("way", WAYS)
def test_way(way, run_way):
    trace, log = run_way(way)
    iterators, batches, instances = WAYS[way]
    assert trace.state("python") == "On"
    assert not trace.tables("Loss")
    assert len(trace.calls("LoaderStart")) == iterators
    assert sorted(row["instance"] for row in trace.tables("LoaderInfo")) == instances
    if batches is not None:  # which batches a dying worker had made is a matter of time
        assert len(log.of("next")) == batches
    check_nexts(trace, log)
    check_fetches(trace, log, way)
    check_pinning(trace, log)
    check_input(trace, log)
    check_code(trace, way)
    if way not in WORKERLESS:
        check_joins(trace, log, way)


def check_nexts(trace, log):
    """Each next() that the program timed is one record within that time, and failed if it gave no batch."""
    records = by_thread(trace.calls("LoaderNext"))
    for (pid, thread), calls in records.items():
        events = [e for kind in ("next", "end", "error") for e in log.of(kind) if (e["pid"], e["thread"]) == (pid, thread)]
        events.sort(key=lambda e: e["end"])
        calls = sorted(calls, key=lambda call: call.end_ns)
        assert len(events) == len(calls)
        for call, event in zip(calls, events):
            assert inside(call, event), (call, event)
            assert call.failed == (event["event"] != "next")
            assert call.a


def check_fetches(trace, log, way):
    """Each sample that the program made lies in one fetch of its own thread, and each fetch that succeeded holds some."""
    records = by_thread(trace.calls("Fetch"))
    held = defaultdict(int)
    for event in log.of("sample"):
        calls = records[event["pid"], event["thread"]]
        holding = [call for call in calls if around(call, event)]
        if not holding:  # the fetch in which its worker was killed
            assert way == "worker killed" and event["begin"] > calls[-1].end_ns
            continue
        held[id(max(holding, key=lambda call: call.begin_ns))] += 1
    for calls in records.values():
        for call in calls:
            assert call.failed or 1 <= held[id(call)] <= BATCH


def check_pinning(trace, log):
    """One record for each batch pinned, of the same loader as its next(), under the index of the batch."""
    events, records = log.of("pin"), trace.calls("PinBatch")
    calls = [call for call in records if any(call.thread == e["thread"] and around(call, e) for e in events)]
    assert len(calls) == len(events) == len(records)
    loaders = {row["id"] for row in trace.tables("LoaderInfo")}
    for call, event in zip(calls, events):
        assert around(call, event)
        assert call.a in loaders
        if event["batch"][0] < 1000 and not is_stream(log):
            assert call.b == event["batch"][0] // BATCH


def check_input(trace, log):
    """What a fetch read is what its samples read, to the byte."""
    samples = log.of("sample")
    for call in trace.calls("Fetch"):
        mine = [e for e in samples if (e["pid"], e["thread"]) == (call.pid, call.thread) and around(call, e)]
        read, disk_kib, io_us, opens, reads = call.io_counts
        if any(event["name"] == "files" for event in mine):
            assert read == sum(event["bytes"] for event in mine)
            assert (opens, reads) == (len(mine), 2 * len(mine))
            assert 0 <= io_us <= (call.end_ns - call.begin_ns) / 1e3 + 1
            assert disk_kib == 0, "just written: in the page cache"
        elif not any(event["name"] == "inner" for event in mine):
            assert read == 0


def check_code(trace, way):
    lines = (PROGRAMS / "modes.py").read_text().splitlines()
    methods = {f"{PROGRAMS / 'modes.py'}:{i}" for i, line in enumerate(lines, 1) if "def __getitem__" in line or "def __iter__" in line}
    for row in trace.tables("LoaderInfo"):
        place, function = row["code"].split(" ")
        assert place in methods
        assert function == f"{row['dataset']}.{'__iter__' if row['dataset'] == 'Stream' else '__getitem__'}" or way == "wrapped dataset"
        if way == "wrapped dataset":
            assert (row["dataset"], function) == ("Subset", "Samples.__getitem__")


def is_stream(log):
    return any(event["name"] == "stream" for event in log.of("sample"))


def check_joins(trace, log, way):
    """The n-th index sent to a worker in a pass is its n-th fetch there, and next() returns the batch of its index."""
    starts = trace.calls("LoaderStart")
    pids = defaultdict(list)
    for row in trace.tables("WorkerInfo"):
        pids[row["loader"], row["worker"]].append(row["pid"])
    passes = defaultdict(list)
    for start in starts:
        passes[start.a].append(start.begin_ns)

    def pass_of(call):
        return call.a, bisect.bisect_right(passes[call.a], call.begin_ns) - 1

    sent = {(*pass_of(call), call.b): call for call in trace.calls("IndexSent")}
    received = {(*pass_of(call), call.b): call for call in trace.calls("BatchReceived") if not call.failed}
    width = 1 if way.startswith("without batches") else BATCH
    samples = defaultdict(list)
    for event in log.of("sample"):
        samples[event["pid"], event["index"] // width].append(event)
    for call in trace.calls("LoaderNext"):
        if call.failed or not pids.get((call.a, 0)):
            continue  # one without workers, within a worker
        key = (*pass_of(call), call.b)
        around_it = [e for e in log.of("next") if e["thread"] == call.thread and inside(call, e)]
        event = min(around_it, key=lambda e: abs(e["begin"] - call.begin_ns))  # two may be 20 us apart, the clocks' error
        assert sent[key].begin_ns <= received[key].begin_ns <= call.end_ns + CLOCK_NS
        if is_stream(log):
            worker = event["batch"][0] // 1000
            assert sent[key].detail[2] == worker
            continue
        if "nested" not in way:
            assert event["batch"][0] // width == call.b
        nth = min(key[1], len(pids[call.a, sent[key].detail[2]]) - 1)
        pid = pids[call.a, sent[key].detail[2]][nth]
        made = [e for e in samples[pid, call.b] if sent[key].begin_ns - CLOCK_NS <= e["begin"] and e["end"] <= received[key].begin_ns]
        assert made or "nested" in way, (call, sent[key], received[key], pid)


def test_what_numpy_reads_counts(run_script, tmp_path):
    """np.load() reads by fread(), whose system calls are made inside libc."""
    watched = run_script(
        f"""
import numpy, torch
from torch.utils.data import DataLoader, Dataset

class Fields(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return torch.from_numpy(numpy.load(r"{tmp_path}/field.npy")[:8, :8].copy())

numpy.save(r"{tmp_path}/field.npy", numpy.zeros((1024, 1024)))
for batch in DataLoader(Fields(), batch_size=2):
    pass
"""
    )
    assert (watched.returncode, watched.stderr) == (0, "")
    fetches = watched.trace.calls("Fetch")
    assert len(fetches) == 2
    for fetch in fetches:
        read, _, io_us, opens, _ = fetch.io_counts
        assert 2 * (8 << 20) <= read <= 2 * (8 << 20) + 16384  # and the header, in a buffer
        assert opens == 2
        assert 0 < io_us <= (fetch.end_ns - fetch.begin_ns) / 1e3 + 1
