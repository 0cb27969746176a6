# SPDX-License-Identifier: Apache-2.0
"""GPUWATCH_APPLY on real PyTorch: the settings are those in force, by the loaders' own account, and the training is the same."""

import json
import sys

import pytest
from conftest import PROGRAMS

pytestmark = pytest.mark.beside_others

PROGRAM = PROGRAMS / "applying.py"
WORDS = [sys.executable, PROGRAM]
UNCHANGED = ("samples", "losses")


def line_of(name):
    """Where the program constructs this loader, as a finding names it."""
    lines = PROGRAM.read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if f'yield "{name}"' in line)
    return f"applying.py:{number}"


def seen(stdout):
    return {row["name"]: row for row in map(json.loads, stdout.splitlines())}


@pytest.fixture(scope="module")
def as_it_is():
    """What the program prints without gpuwatch, once for all tests."""
    return {}


@pytest.fixture
def applied(run_plain, run_watched, as_it_is):
    """applied(settings) -> (loaders without it, loaders with it, the watched run)."""

    def run(settings):
        if not as_it_is:
            as_it_is.update(seen(run_plain(WORDS).stdout))
        watched = run_watched(WORDS, env={"GPUWATCH_APPLY": settings})
        assert watched.returncode == 0, watched.stderr
        return as_it_is, seen(watched.stdout), watched

    return run


def facts(watched, prefix):
    return [row["value"] for row in watched.trace.tables("Fact") if row["key"].startswith(prefix)]


def our_lines(watched):
    return [line for line in watched.stderr.splitlines() if line.startswith("gpuwatch:")]


def test_nothing_changes_unasked(run_both):
    plain, watched = run_both(WORDS)
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, watched.stdout, watched.stderr)
    assert facts(watched, "applied.") == facts(watched, "not_applied.") == []


def test_workers_of_every_loader(applied):
    before, after, watched = applied("num_workers=2,prefetch_factor=4")
    for name in ("plain", "second", "workers", "subclass", "timeout", "shared", "threads"):
        assert (after[name]["num_workers"], after[name]["prefetch_factor"]) == (2, 4), name
    for name in ("plain", "second", "workers", "subclass", "timeout", "nested"):
        assert [after[name][key] for key in UNCHANGED] == [before[name][key] for key in UNCHANGED], name
    # In an order that two workers give, but each sample once.
    assert sorted(sum(after["shared"]["samples"], [])) == sorted(sum(before["shared"]["samples"], []))
    assert {info["num_workers"] for info in watched.trace.tables("LoaderInfo")} == {0, 2}  # what is recorded is in force
    assert len(our_lines(watched)) == 1
    assert "applied num_workers=2 (was 0), prefetch_factor=4 (was 2) at " in our_lines(watched)[0]
    assert len(facts(watched, "applied.")) == 9  # the repeating stream keeps its two workers and gets the prefetch factor


def test_stream_that_nobody_splits_gets_no_workers(applied):
    before, after, watched = applied("num_workers=2")
    assert after["stream"] == before["stream"]
    (refused,) = facts(watched, "not_applied.")
    assert "each would repeat them" in refused and refused.endswith(line_of("stream"))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_stream_that_its_workers_repeat_keeps_them(applied, workers):
    before, after, watched = applied(f"num_workers={workers}")
    assert len(before["repeating"]["samples"]) == 6  # of 12 samples, in batches of 4
    assert after["repeating"] == before["repeating"]
    assert any(row.endswith(line_of("repeating")) for row in facts(watched, "not_applied."))


def test_only_the_loader_at_the_place(applied):
    place = line_of("second")
    before, after, watched = applied(f"num_workers=1@{place},persistent_workers=True@{place},pin_memory=True@elsewhere.py:3")
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"second"}
    assert (after["second"]["num_workers"], after["second"]["persistent_workers"]) == (1, True)
    assert [row.rpartition("/")[2] for row in facts(watched, "applied.")] == [place]


def test_workers_are_taken_away(applied):
    before, after, watched = applied("num_workers=0")
    assert after["workers"] == {**before["workers"], "num_workers": 0, "prefetch_factor": None, "persistent_workers": False}
    assert after["timeout"] == before["timeout"]  # PyTorch demands workers for it
    assert any("timeout" in row for row in facts(watched, "not_applied."))


def test_switches_and_start_method(applied):
    before, after, _ = applied("in_order=False,multiprocessing_context=forkserver,persistent_workers=False")
    assert after["workers"] == {
        **before["workers"], "in_order": False, "persistent_workers": False, "multiprocessing_context": "forkserver",
    }  # fmt: skip
    assert after["plain"] == {**before["plain"], "in_order": False}


def test_settings_of_the_process(applied):
    before, after, watched = applied("float32_matmul_precision=high,cudnn_benchmark=True,gc_freeze=True,OMP_NUM_THREADS=1")
    process = after.pop("process")
    assert (process["precision"], process["benchmark"], process["frozen"]) == ("high", True, True)
    assert process["signature"] == before["process"]["signature"]
    assert after == {name: row for name, row in before.items() if name != "process"}
    assert [row.split(" ")[0] for row in facts(watched, "applied.")] == [
        "OMP_NUM_THREADS=1", "float32_matmul_precision=high", "cudnn_benchmark=True", "gc_freeze=True",
    ]  # fmt: skip
    assert len(our_lines(watched)) == 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_threads_of_workers(applied, method):
    place = line_of("threads")
    _, after, watched = applied(f"num_workers=1@{place},multiprocessing_context={method}@{place},worker_threads=3")
    assert after["threads"]["samples"] == [[3.0], [3.0]]
    assert len(our_lines(watched)) == 1  # of the training process; workers write to the trace
    assert "worker_threads=3" in facts(watched, "applied.")


@pytest.mark.parametrize("settings", ["num_worker=2", "num_workers", "num_workers=", "batch_size=64"])
def test_what_is_not_understood_applies_nothing(applied, settings):
    before, after, watched = applied(f"pin_memory=True,{settings}" if "=" in settings else settings)
    assert after == before
    assert len(our_lines(watched)) == 1 and "is not understood" in our_lines(watched)[0]


def test_a_value_may_hold_commas(run_watched):
    source = "import os, torch; print(os.environ['PYTORCH_CUDA_ALLOC_CONF']); torch.utils.data.DataLoader([1]).__iter__()"
    watched = run_watched(
        [sys.executable, "-c", source],
        env={"GPUWATCH_APPLY": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:64,num_workers=0"},
    )
    assert watched.stdout == "expandable_segments:True,max_split_size_mb:64\n"
    assert facts(watched, "applied.") == ["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:64 (was not set)"]


def test_malloc_keeps_its_memory(run_plain, run_watched):
    """In the process itself, whose malloc has read its variables before the library is there, and in its forks."""
    source = """
import ctypes, os, resource
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        blocks = [libc.malloc(1 << 20) for _ in range(2)]
        for block in blocks: ctypes.memset(block, 1, 1 << 20)
        for block in blocks: libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults(), flush=True)
if os.fork() == 0:
    print(faults(), flush=True)
    os._exit(0)
os.wait()
"""
    tunables = "glibc.malloc.trim_threshold=1073741824:glibc.malloc.mmap_threshold=33554432"
    words = [sys.executable, "-c", source]
    given_back = [int(line) for line in run_plain(words).stdout.split()]
    kept = [int(line) for line in run_watched(words, env={"GPUWATCH_APPLY": f"GLIBC_TUNABLES={tunables},gc_freeze=True"}).stdout.split()]
    assert min(given_back) > 50 * 256, given_back
    assert len(kept) == 2 and max(kept) < 50 * 64, (kept, given_back)
