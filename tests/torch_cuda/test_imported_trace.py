# SPDX-License-Identifier: Apache-2.0
"""torch.profiler's own CUDA trace, read by the analyzer, says of the same seconds what others who watched them say.

One run, watched by three: torch.profiler, whose trace is imported; the simulated device's log with the script's own (the
oracle of tests/groundtruth), against which every category is compared that both can see; and gpuwatch, which leaves CUPTI
to the profiler and so has host calls alone: of it the waits of the DataLoader are compared.

The oracle takes the bounds of steps and of waits from the profiler's marks, read here by a few lines of Python; all else it has
from elsewhere: the device's log, and the script's own for when it computed. A script's own timer around next() is 0.2 ms longer than the profiler's mark, which costs that much to begin
and to end: that the marks are long enough is asked of gpuwatch's hooks, and the script's timer must hold them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch_case import PROGRAMS, device_environment

sys.path.insert(0, str(Path(__file__).parents[1] / "groundtruth"))
from oracle import Oracle  # noqa: E402

STEPS = 20
TOLERANCE = 0.01  # of wall time
DEVICE = ("compute", "copy.h2d", "copy.d2h", "copy.d2d", "copy.staging", "sync", "launch.api")


def marks(trace, name="ProfilerStep#"):
    found = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e["name"].startswith(name)]
    return sorted((e for e in found if e["cat"] == "user_annotation"), key=lambda event: event["ts"])


def phases_of(trace, offset):
    """The profiler's steps and waits as the program's log would have them, on the device log's clock."""

    def phase(name, number, begin, end):
        return {"phase": name, "tid": begin["tid"], "step": number, "begin": at(begin["ts"]), "end": end}

    def at(microseconds):
        return trace["baseTimeNanoseconds"] + round(microseconds * 1000) - offset

    steps, waits = marks(trace), marks(trace, "enumerate(DataLoader)#")
    ends = [*(at(e["ts"]) for e in steps[1:]), at(steps[-1]["ts"] + steps[-1]["dur"])]
    return [
        *(phase("step", i, e, end) for i, (e, end) in enumerate(zip(steps, ends))),
        *(phase("data_wait", i, e, at(e["ts"] + e["dur"])) for i, e in enumerate(waits)),
    ]


def grouped(totals, wall):
    shares = {category: totals.get(category, 0) / wall for category in DEVICE}
    shares["input"] = sum(ns for category, ns in totals.items() if category.startswith("input.")) / wall
    shares["other host work"] = 1 - sum(shares.values())
    return shares


def imported(gpuwatch, trace):
    done = subprocess.run([gpuwatch, "analyze", "--json", trace], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_imported_trace_agrees_with_oracle_and_gpuwatch(torch_cuda, sim_lib, inject, gpuwatch, tmp_path):
    path, truth, phases = tmp_path / "trace.json", tmp_path / "truth.jsonl", tmp_path / "phases.jsonl"
    environment = {"GWSIM_TRUTH": truth, "GWSIM_PHASES": phases, **device_environment(sim_lib, "a100")}
    run = inject([torch_cuda, PROGRAMS / "profiled_training.py", path, STEPS], env=environment, first=True, timeout=600)
    assert run.returncode == 0, run.stderr
    trace = json.loads(path.read_text())
    report = imported(gpuwatch, path)
    rank = report["ranks"][0]

    assert rank["steps"]["source"] == "profiler"
    assert rank["steps"]["count"] == rank["steps"]["recorded"] == len(marks(trace)) == STEPS
    assert report["coverage"]["launches_matched_share"] == 1.0
    assert report["coverage"]["sources"]["torch.profiler"] == "on"
    assert sum(row["ns"] for row in rank["attribution"]) == rank["wall_ns"]

    timed = [json.loads(line) for line in phases.read_text().splitlines()]
    marked = phases_of(trace, int(run.stdout))
    computed = [phase for phase in timed if phase["phase"] == "metrics"]
    phases.write_text("".join(json.dumps(phase) + "\n" for phase in marked + computed))
    expected = grouped(*Oracle(truth, phases, skip_first=0, skip_last=0).attribute())
    found = grouped({row["category"]: row["ns"] for row in rank["attribution"]}, rank["wall_ns"])
    assert min(expected[category] for category in ("input", "compute", "other host work")) > 5 * TOLERANCE  # it could fail
    assert found == pytest.approx(expected, abs=TOLERANCE)

    # The same next() calls, seen by gpuwatch's hooks; the loader before the recorded steps is one of its own.
    seen = {loader["batches"]: loader["wait_s"] for loader in run.report()["ranks"][0]["loaders"]}
    (loader,) = rank["loaders"]
    assert loader["batches"] == STEPS
    assert loader["wait_s"] == pytest.approx(seen[STEPS], abs=TOLERANCE * rank["wall_ns"] / 1e9)
    waits, timers = ([phase for phase in log if phase["phase"] == "data_wait"] for log in (marked, timed))
    slack = 100_000  # between the clocks: torch.profiler maps a counter of its own to CLOCK_REALTIME
    for timer, mark in zip(timers, waits, strict=True):
        assert timer["begin"] - slack < mark["begin"] < mark["end"] < timer["end"] + slack
