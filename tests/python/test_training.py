# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch, seeded: the same output with and without injection, and a trace that agrees with the program's own
counts and its own timer around next()."""

import re
import sys

import pytest
from conftest import PROGRAMS

pytestmark = pytest.mark.beside_others

SCENARIOS = {
    "inline": {},
    "one worker": {"workers": 1},
    "two workers": {"workers": 2, "epochs": 2},
    "four workers, prefetch 4": {"workers": 4, "prefetch": 4},
    "slow batches": {"workers": 2, "sample-ms": 8, "compute-ms": 0},
    "persistent": {"workers": 2, "epochs": 3, "persistent": True},
    "iterable inline": {"iterable": True},
    "iterable, uneven workers": {"iterable": True, "workers": 2},
    "iterable, persistent": {"iterable": True, "workers": 2, "persistent": True, "epochs": 2},
    "early break": {"workers": 2, "stop-after": 3, "epochs": 2},
    "out of order": {"workers": 2, "out-of-order": True},
    "spawn": {"workers": 2, "context": "spawn"},
    "forkserver": {"workers": 2, "context": "forkserver"},
}
SAMPLES, BATCH = 48, 8
CLOCK_NS = 20_000  # a tick's time is known through clock samples, each in a bracket of its own
TIMER_NS = 200_000  # a step: what waits may be longer by the script's timer


def command(options):
    words = [sys.executable, PROGRAMS / "train.py"]
    for name, value in options.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def returned(trace):
    return [call for call in trace.calls("LoaderNext") if not call.failed]


def without_names(text):
    """multiprocessing's semaphores have random names, which Python prints where /dev/shm is not as it expects."""
    return re.sub(r"/mp-\w+", "/mp-name", text)


@pytest.mark.parametrize("options", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_trace_agrees_with_program(options, run_both):
    plain, watched = run_both(command(options))
    assert watched.returncode == plain.returncode == 0, watched.stderr
    assert watched.stdout.splitlines()[:-1] == plain.stdout.splitlines()[:-1]
    assert without_names(watched.stderr) == without_names(plain.stderr)

    trace, steps = watched.trace, watched.result["steps"]
    epochs, workers = options.get("epochs", 1), options.get("workers", 0)
    assert trace.state("python") == "On"
    assert trace.facts()["python"] == watched.result["python"]
    assert len(returned(trace)) == steps
    assert len(trace.calls("OptimizerStep")) == steps
    assert len(trace.calls("LoaderStart")) == epochs
    assert [call.b for call in trace.calls("LoaderStart")] == list(range(epochs))
    check_waits(returned(trace), watched.result["waits"])
    check_configuration(trace, options)
    check_fetches(trace, steps, workers, "stop-after" in options)
    if workers:
        check_protocol(trace, options, epochs)


def check_waits(calls, own):
    """Each wait lies within the script's own timer, and all of them are as long; except that the kernel may run a worker
    between timer and hook, which is at most as long as it says that this thread had to wait for a CPU."""
    pairs = [(call, begin, end) for call, (begin, end, _) in zip(calls, own, strict=True)]
    assert all(begin - CLOCK_NS <= call.begin_ns and call.end_ns <= end + CLOCK_NS for call, begin, end in pairs)
    waited, timed = sum(call.end_ns - call.begin_ns for call in calls), sum(end - begin for begin, end, _ in own)
    assert timed - waited <= max(0.005 * timed, TIMER_NS * len(own)) + sum(delay for *_, delay in own)


def check_configuration(trace, options):
    workers = options.get("workers", 0)
    loaders = trace.tables("LoaderInfo")
    assert len(loaders) == 1, "one DataLoader is one loader, however many passes"
    loader = loaders[0]
    assert loader["num_workers"] == workers
    assert loader["batch_size"] == BATCH
    assert loader["prefetch_factor"] == (options.get("prefetch", 2) if workers else -1)
    assert loader["persistent_workers"] == ("persistent" in options)
    assert loader["in_order"] == ("out-of-order" not in options)
    assert loader["pin_memory"] == loader["drop_last"] == 0
    assert loader["class_name"] == "DataLoader"
    assert loader["dataset"] == ("Stream" if "iterable" in options else "Samples")
    assert loader["sampler"] == ("_InfiniteConstantSampler" if "iterable" in options else "RandomSampler")
    assert loader["start_method"] == (options.get("context", "fork"))
    line = next(i for i, text in enumerate((PROGRAMS / "train.py").read_text().splitlines(), 1) if "return DataLoader(" in text)
    assert loader["location"] == f"{PROGRAMS / 'train.py'}:{line}"


def check_fetches(trace, steps, workers, is_cut):
    fetches = [call for call in trace.calls("Fetch") if not call.failed]
    collates = trace.calls("Collate")
    assert len(fetches) >= steps if is_cut else len(fetches) == steps
    assert len(collates) == len(fetches)
    workers_pids = {row["pid"] for row in trace.tables("WorkerInfo")}
    assert {call.pid for call in fetches} <= (workers_pids or {row["pid"] for row in trace.tables("Process")})
    if workers:
        starts = trace.calls("WorkerStart")
        assert {call.pid for call in starts} == workers_pids
        by_pid = {row["pid"]: row["worker"] for row in trace.tables("WorkerInfo")}
        assert all(by_pid[call.pid] == call.b for call in starts)
    for call in fetches:
        cpu_ns, run_delay_ns, _, _ = call.detail
        # A sample sleeps: its fetch must not be charged to the CPU.
        assert cpu_ns + run_delay_ns <= call.end_ns - call.begin_ns + 50e3


def check_protocol(trace, options, epochs):
    sent, received = trace.calls("IndexSent"), trace.calls("BatchReceived")
    if "iterable" not in options:
        workers = options["workers"]
        if "out-of-order" not in options:
            assert all(call.detail[2] == call.b % workers for call in sent), "in turns"
        if "stop-after" not in options:
            assert sorted(call.b for call in sent) == sorted(list(range(SAMPLES // BATCH)) * epochs)
            assert sorted(call.b for call in received) == sorted(call.b for call in sent)
            assert sorted(call.b for call in returned(trace)) == sorted(call.b for call in sent)
    else:
        ends = [call for call in received if call.failed]
        assert len(ends) == options["workers"] * epochs, "each worker says once a pass that it is exhausted"
        assert {call.b for call in returned(trace)} == {call.b for call in received if not call.failed}


def test_exception_in_worker_looks_the_same(run_both):
    for workers in (0, 1):  # with two, the line of torch that raises depends on who is first
        options = {"workers": workers, "raise-at": 5}
        plain, watched = run_both(command(options))
        assert watched.returncode == plain.returncode == 1
        assert "sample 5 is broken" in watched.stderr
        assert without_names(watched.stderr) == without_names(plain.stderr)
        assert [call.failed for call in watched.trace.calls("LoaderNext")].count(True) >= 1


def test_checkpoint_is_seen(run_watched, tmp_path):
    watched = run_watched(command({"checkpoint": tmp_path / "model.pt"}))
    (checkpoint,) = watched.trace.calls("Checkpoint")
    assert not checkpoint.failed
    assert checkpoint.begin_ns > watched.trace.calls("OptimizerStep")[-1].end_ns


def test_iterators_past_the_bound_are_counted(run_script):
    watched = run_script(
        """
from torch.utils.data import DataLoader
loader = DataLoader(list(range(4)), batch_size=2)
live = [iter(loader) for _ in range(200)]
for iterator in live:
    next(iterator)
""",
        torch="stub",
    )
    assert (watched.returncode, watched.stderr) == (0, "")
    assert watched.trace.losses() == {"incomplete: DataLoader iterators are forgotten: more than 128 are in use": 72}


@pytest.mark.parametrize("method", ["none", "fork", "forkserver", "spawn"])
def test_nothing_of_a_loader_lives_longer(method, run_both):
    program = [sys.executable, PROGRAMS / "lifetimes.py", method]
    plain, watched = run_both(program)
    assert (watched.returncode, watched.stdout, watched.stderr) == (0, plain.stdout, plain.stderr)
    assert plain.stdout.count("gone ['MainThread']") == 2
    assert len(watched.trace.calls("LoaderStart")) == 2
