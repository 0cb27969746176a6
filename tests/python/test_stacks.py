# SPDX-License-Identifier: Apache-2.0
"""Python stacks of stalls and of workers, on every interpreter of this machine: what the walker reads is what the
interpreter says of itself, samples of workers are where the dataset's own log has them, and a wait that is cut into
slices answers as one that is not."""

import bisect
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HERE, PROGRAMS, STUB, interpreters, name_of

pytestmark = pytest.mark.beside_others

ROOT = HERE.parents[1]
PATHS = {"PYTHONPATH": f"{STUB}:{PROGRAMS}"}
ALL = pytest.mark.parametrize("interpreter", interpreters(), ids=name_of)


@pytest.fixture(scope="module")
def walk_probe(request):
    probe = request.getfixturevalue("build") / "lib/guests/libwalk_probe.so"
    assert probe.exists(), "run `make build`"
    return probe


def output_of(words, env=None):
    done = subprocess.run([str(word) for word in words], env=env, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@ALL
def test_table_is_that_of_the_headers(interpreter, tmp_path):
    where = "import sysconfig as s, sys; print(sys.version_info[1], s.get_path('include'))"
    minor, include = subprocess.run([interpreter, "-c", where], capture_output=True, text=True).stdout.split()
    if int(minor) > 12:
        pytest.skip("Python 3.13 and newer describe their structures themselves")
    if not Path(include, "internal/pycore_interp.h").exists():
        pytest.skip(f"no internal headers in {include}")
    command = ["cc", "-fsyntax-only", f"-I{ROOT}", f"-I{include}", f"-I{include}/internal", HERE / "check_python_layout.c"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@ALL
@pytest.mark.parametrize("gil", ["held", "release"])
def test_walk_says_what_python_says(interpreter, gil, walk_probe):
    """Generators, lambdas, closures, classes in the making, finalizers, coroutines, deep recursion, far lines, names
    of one, two and four bytes a character; beside threads that do the same and churn frames."""
    told = output_of([interpreter, PROGRAMS / "walked.py", walk_probe, "1", gil])
    assert told["wrong"] == []
    assert told["checked"] > 100
    assert told["is_main"]


@ALL
def test_walk_sees_quick_code_as_often_as_slow(interpreter, walk_probe):
    """What is lost of one kind of code is taken for the time of the others."""
    told = output_of([interpreter, PROGRAMS / "walked_while_running.py", walk_probe])
    assert told["failed"] + told["elsewhere"] <= 0.05 * told["walks"], told


@ALL
def test_stall_carries_the_stack_that_the_program_logged(interpreter, run_watched):
    watched = run_watched([interpreter, PROGRAMS / "stalls.py"], env=PATHS)
    assert watched.returncode == 0, watched.stderr
    trace, told = watched.trace, watched.result
    assert trace.state("stacks") == "On"
    stacks = sorted((stack for stack in trace.stacks if not stack.sampled_pid), key=lambda stack: stack.begin_ns)
    assert {stack.thread for stack in stacks} == {told["thread"]}
    sleeps = [stack for stack in stacks if stack.name in ("clock_nanosleep", "select")]  # of 3.11 and newer, of older
    begins = [stack.begin_ns for stack in sleeps]
    found = 0
    for begin, end, frames in told["log"]:
        within = sleeps[bisect.bisect_left(begins, begin - 1000) : bisect.bisect_right(begins, end)]
        assert [stack.frames for stack in within] in ([], [frames])
        found += len(within)
    assert found == len(sleeps)  # and none that the program did not log
    # What walks may cost is bounded: on a slow or busy machine some stalls go without.
    assert found >= len(told["log"]) / 10


@ALL
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_are_seen_where_their_own_log_has_them(interpreter, context, run_watched):
    watched = run_watched([interpreter, PROGRAMS / "sampled_workers.py", context], env=PATHS)
    assert watched.returncode == 0, watched.stderr
    assert watched.result["batches"] == 60
    trace = watched.trace
    assert trace.state("worker stacks") == "On"
    agree = {"decode": 0, "augment": 0}
    compared = 0
    logs = {int(pid): sorted(log) for pid, log in watched.result["log"].items()}
    samples = [stack for stack in trace.stacks if stack.is_of_worker]
    assert {sample.sampled_pid for sample in samples} <= set(logs)
    for sample in samples:
        log = logs[sample.sampled_pid]
        place = bisect.bisect_right(log, [sample.begin_ns, math.inf, ""])
        running = log[place - 1] if place else None
        if running is None or sample.begin_ns > running[1]:
            continue  # between two samples of the dataset: no claim
        names = [frame.rpartition(" ")[2] for frame in sample.frames]
        compared += 1
        agree[running[2]] += running[2] in names
    # Between the time of a sample and the reading of frames this thread may have lost its CPU.
    assert compared >= 20
    assert sum(agree.values()) >= 0.9 * compared, (agree, compared)
    assert min(agree.values()) > 0
    # The share of one function among samples is its share of the time, within four binomial errors.
    waits = sorted((call.begin_ns, call.end_ns) for call in trace.calls("LoaderNext"))
    time_in = {"decode": 0, "augment": 0}
    for begin, end, function in itertools.chain(*logs.values()):
        time_in[function] += sum(max(0, min(end, until) - max(begin, since)) for since, until in waits)
    expected = time_in["decode"] / sum(time_in.values())
    seen = {name: sum(any(frame.endswith(" " + name) for frame in s.frames) for s in samples) for name in agree}
    count = sum(seen.values())
    error = math.sqrt(expected * (1 - expected) / count)
    assert abs(seen["decode"] / count - expected) <= 4 * error, (seen, expected)


@ALL
def test_training_thread_is_seen_where_its_own_log_has_it(interpreter, run_watched):
    watched = run_watched([interpreter, PROGRAMS / "training_places.py"], env=PATHS)
    assert watched.returncode == 0, watched.stderr
    trace, told = watched.trace, watched.result
    assert trace.state("training stacks") == "On"
    log = told["log"]
    seen = {"tokenize": 0, "measure": 0}
    compared = agree = 0
    for sample in trace.stacks:
        if not sample.is_of_training:
            continue
        place = bisect.bisect_right(log, [sample.begin_ns, math.inf, ""])
        running = log[place - 1] if place else None
        if running is None or sample.begin_ns > running[1]:
            continue
        names = [frame.rpartition(" ")[2] for frame in sample.frames]
        compared += 1
        agree += running[2] in names
        seen[running[2]] += 1
    # Some 16 a second, less on a busy machine; between its time and the reading of frames a sample may lose its CPU.
    assert compared >= 20
    assert agree >= 0.9 * compared
    inside = {name: sum(end - begin for begin, end, function in log if function == name) for name in seen}
    expected = inside["measure"] / sum(inside.values())
    error = math.sqrt(expected * (1 - expected) / compared)
    assert abs(seen["measure"] / compared - expected) <= 4 * error, (seen, expected)


@ALL
def test_no_thread_of_ours_is_there_at_a_fork(interpreter, run_watched):
    told = run_watched([interpreter, PROGRAMS / "training_places.py"], env=PATHS).result
    before, after, in_child = zip(*told["forks"])
    assert sum(before) >= 1  # else the rest proves nothing
    assert set(after) == set(in_child) == {0}
    assert told["warnings"] == []


def test_sliced_waits_answer_as_whole_ones(run_plain, run_watched):
    script = [sys.executable, PROGRAMS / "sliced_waits.py"]
    plain = run_plain(script, env=PATHS)
    watched = run_watched(script, env=PATHS)
    assert (plain.returncode, watched.returncode) == (0, 0), watched.stderr
    wanted, got = json.loads(plain.stdout.splitlines()[-1]), watched.result
    # A busy machine may send a signal before the wait, or end the wait, out of turn: in the run without us as well.
    early = [row for row in got["results"] if row[0].endswith("interrupted") and not row[1][1]]
    early_plain = [row for row in wanted["results"] if row[0].endswith("interrupted") and not row[1][1]]
    assert len(early) <= len(early_plain), early
    results = [[row[:2] for row in told["results"] if not row[0].endswith("interrupted")] for told in (wanted, got)]
    assert results[0] == results[1]
    assert got["left"] == wanted["left"]
    assert [stack for stack in watched.trace.stacks if stack.is_of_worker], "nothing was cut into slices"
    least_late = {}
    for name, _, expected, took in got["results"]:
        if expected is None:
            continue
        assert took >= expected - 1e-4, f"{name} ended early"
        if expected > 0.1:  # was cut at least once
            least_late[name] = min(least_late.get(name, math.inf), took - expected)
    del least_late["ctypes"]  # once only
    # A busy machine may be late at any time, but not each of a dozen times.
    assert len(least_late) == 2 and max(least_late.values()) < 0.002, least_late


def test_device_stall_carries_the_stack(run_watched, sim_lib):
    script = PROGRAMS / "device_stalls.py"
    watched = run_watched([sys.executable, script], env={**PATHS, "LD_LIBRARY_PATH": str(sim_lib)})
    assert watched.returncode == 0, watched.stderr
    copies = [stack for stack in watched.trace.stacks if stack.name == "cudaMemcpy"]
    line = next(i for i, text in enumerate(script.read_text().splitlines(), 1) if "cudaMemcpy" in text)
    assert len(copies) == watched.result["copies"]
    assert all(stack.frames[0].startswith(f"{script}:{line} ") for stack in copies)


CHECKPOINT = """
import json, torch
model = torch.nn.Linear(4, 1)
torch.optim.SGD(model.parameters(), lr=0.1).step()
def keep():
    torch.save({"weights": torch.zeros(4000000)}, "checkpoint.pt")
keep()
print(json.dumps({}))
"""


@pytest.mark.parametrize("paths", ["full", "basename"])
def test_checkpoint_carries_the_stack(paths, run_watched, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(CHECKPOINT)
    watched = run_watched([sys.executable, script], env={"GPUWATCH_PATHS": paths}, cwd=tmp_path)
    assert watched.returncode == 0, watched.stderr
    (stack,) = [stack for stack in watched.trace.stacks if stack.name == "torch.save"]
    place = str(script) if paths == "full" else "train.py"
    assert stack.frames[-2:] == [f"{place}:6 keep", f"{place}:7 <module>"]
    # What is the user's can still be told from what is a library's.
    assert all("/site-packages/torch/" in frame for frame in stack.frames[:-2]) and len(stack.frames) > 2


@pytest.mark.parametrize("options", [[], ["workers=2", "context=fork"]], ids=["inline", "workers"])
def test_where_reading_memory_is_refused_the_source_says_so(options, run_both):
    words = [sys.executable, PROGRAMS / "refused.py", *options]
    plain, watched = run_both(words, env=PATHS)
    assert (watched.returncode, watched.stdout, watched.stderr) == (0, plain.stdout, plain.stderr)
    assert watched.trace.state("stacks") == "Unavailable"
    assert "process_vm_readv is not permitted" in watched.trace.source("stacks")["text"]
    assert not watched.trace.stacks


def test_report_names_the_workers_functions(inject):
    script = PROGRAMS / "sampled_workers.py"
    run = inject([sys.executable, script, "fork"], env=PATHS)
    assert run.returncode == 0, run.stderr
    (loader,) = run.report()["ranks"][0]["loaders"]
    seen = loader["worker_time"]
    assert seen["samples"] >= 20 and 0 < seen["busy_share"] <= 1
    # On a busy machine what computes may take longer than what sleeps.
    places = {function["function"]: function["location"] for function in seen["functions"][:2]}
    assert set(places) == {"decode", "augment"}
    lines = script.read_text().splitlines()
    sleeps = next(i for i, text in enumerate(lines, 1) if "time.sleep" in text)
    computes = {i for i, text in enumerate(lines, 1) if "thread_time" in text or "sum(range" in text}
    assert places["decode"] == f"{script}:{sleeps}"
    assert places["augment"] in {f"{script}:{line}" for line in computes}
    assert sum(function["share"] for function in seen["functions"]) == pytest.approx(1)
    most = seen["functions"][0]
    if most["share"] >= 0.5:
        place = f"in {most['function']} ({most['location'].rpartition('/')[2]})"
        assert place in " ".join(run.analyze().stdout.split())
