# SPDX-License-Identifier: Apache-2.0
"""Ranges that programs report through NVTX, as the vendor's headers and the `nvtx` package make them."""

import os
import re
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import raw_trace  # noqa: E402

CLOCK_ERROR_NS = 1000  # between the program's clock and the trace's: half a bracket of a clock sample, and rounding


@pytest.fixture
def guest(build):
    return build / "bin/guests/nvtx_guest"


@pytest.fixture
def record(inject, run_dir, guest):
    """record(mode) -> (finished run, its trace)"""

    def run(mode, **env):
        done = inject([guest, mode], env=env)
        assert (done.returncode, done.stderr) == (0, "")
        return done, raw_trace.read_run(run_dir)

    return run


def ranges(trace, *classes):
    return [call for name in classes or ("Range", "ProcessRange", "Mark") for call in trace.calls(name)]


def assert_times(call, times):
    before_begin, after_begin, before_end, after_end = times
    assert before_begin - CLOCK_ERROR_NS <= call.begin_ns <= after_begin + CLOCK_ERROR_NS
    assert before_end - CLOCK_ERROR_NS <= call.end_ns <= after_end + CLOCK_ERROR_NS


def told(output):
    """{name: times of the calls around a range} as the program wrote them."""
    return {words[0]: [int(word) for word in words[1:]] for words in map(str.split, output.splitlines())}


def test_every_call_with_its_times(record):
    done, trace = record("calls")
    times = told(done.stdout)
    by_name = {call.b: call for call in ranges(trace) if not (call.b == "registered" and call.detail == ())}
    assert set(times) <= set(by_name)
    for name, its_times in times.items():
        if name != "registered":  # used twice
            assert_times(by_name[name], its_times)
    assert Counter(call.op_class for call in ranges(trace)) == {"Range": len(times) - 2 + 1, "ProcessRange": 1, "Mark": 1}
    assert trace.state("nvtx") == "On"
    assert trace.facts()["evidence"] == "nvtx"
    assert trace.tables("Loss") == []


def test_domains_categories_and_payloads(record):
    _, trace = record("calls")
    registered = [call for call in ranges(trace) if call.b == "registered"]
    assert len(registered) == 2
    assert {(call.a, call.detail[1:3]) for call in registered} == {("library", (7, "inside"))}
    crossing = next(call for call in ranges(trace) if call.b == "crossing")
    inner = registered[1]
    assert crossing.begin_ns < inner.begin_ns < crossing.end_ns < inner.end_ns
    assert crossing.a == ""

    payload = {call.b: call.detail for call in ranges(trace) if call.detail and call.b != "registered"}
    as_type = {
        "uint64": ("<Q", 1 << 63), "int64": ("<q", -5), "double": ("<d", 2.5),
        "uint32": ("<I", 4000000000), "int32": ("<i", -7), "float": ("<f", 0.5),
    }  # fmt: skip
    for number, (name, (layout, value)) in enumerate(as_type.items(), start=1):
        bits, category, category_name, _, payload_type = payload[name]
        assert struct.unpack_from(layout, struct.pack("<Q", bits))[0] == value
        assert (category, category_name, payload_type) == (7, "loading", number)


def test_a_range_of_the_process_is_who_ended_its(record):
    done, trace = record("calls")
    (call,) = ranges(trace, "ProcessRange")
    main = trace.calls("Mark")[0].thread
    assert call.thread != main
    assert call.detail[3] == main  # who began it


def test_threads(record):
    _, trace = record("threads")
    calls = ranges(trace)
    assert Counter(call.b for call in calls) == {f"level {depth}": 800 for depth in range(6)}
    by_thread = Counter(call.thread for call in calls)
    assert len(by_thread) == 8 and set(by_thread.values()) == {600}
    for thread in by_thread:
        mine = sorted((c for c in calls if c.thread == thread), key=lambda c: (c.begin_ns, c.b))
        for outer, inner in zip(mine, mine[1:]):
            if outer.b < inner.b:
                assert outer.begin_ns <= inner.begin_ns <= inner.end_ns <= outer.end_ns


def test_a_forked_child_has_its_own_ranges(record):
    done, trace = record("fork")
    assert done.stdout == "child 0\n"
    by_process = {}
    for call in ranges(trace):
        by_process.setdefault(call.process, []).append(call.b)
    assert sorted(map(sorted, by_process.values())) == [["child inner", "child outer"], ["outer"]]


def test_names_alone_are_no_evidence(inject, guest, run_dir):
    assert inject([guest, "names"]).returncode == 0
    assert not run_dir.exists()


def test_names_do_not_make_a_trace_grow(record):
    _, trace = record("many")
    names = [call.b for call in ranges(trace)]
    assert len(names) == 10000
    exact = [name for name in names if re.fullmatch(r"item \d+ of 10", name)]
    assert exact == [f"item {i} of 10" for i in range(len(exact))] and 2000 < len(exact) < 2100
    assert set(names[len(exact) :]) == {"item # of #"}


def test_metadata_behind_a_name_is_left_out(record):
    _, trace = record("metadata")
    assert Counter(call.b for call in ranges(trace)) == {"train": 1000, "XlaPass": 1000, "execute": 1000, "#1 of #2#": 1}


def test_names_of_threads(record):
    done, trace = record("threads-named")
    ids = {words[0]: int(words[1]) for words in map(str.split, done.stdout.splitlines()) if len(words) == 2}
    names = {row["thread"]: row["name"] for row in trace.tables("ThreadName")}  # the last one counts
    assert names == {ids["trainer"]: "trainer", ids["reader"]: "reader ü"}


def incomplete(trace):
    """{what lacks a part: how many}; nothing was dropped."""
    losses = trace.losses()
    assert all(reason.startswith("incomplete: ") for reason in losses)
    return {reason.removeprefix("incomplete: "): count for reason, count in losses.items()}


def test_categories_past_the_bound_are_counted(record):
    done, trace = record("categories")
    assert {call.b: call.detail[2] for call in ranges(trace)} == {"first": "renamed", "last": ""}
    sentence = "NVTX ranges may lack the name of their category: more than 768 have one"
    assert incomplete(trace) == {sentence: 1}
    report = done.report()
    assert report["trace"]["lost_events"] == 0 and f"1 record is incomplete: {sentence}." in report["limits"]


def test_threads_named_past_the_bound_are_counted(record):
    _, trace = record("threads-before")
    names = {row["thread"]: row["name"] for row in trace.tables("ThreadName")}
    assert names == {**{1_000_000 + i: "reader" for i in range(192)}, 2_000_000: "late"}
    assert incomplete(trace) == {"threads lack their name in NVTX: more than 192 were named before recording began": 108}


def test_registered_strings_past_the_bound_are_counted(record, other_tool):
    _, alone = record("strings")
    assert [call.b for call in ranges(alone)] == ["first", "another"] and alone.losses() == {}
    # Handles of another tool must be looked up.
    _, trace = record("strings", GPUWATCH_NVTX_FORWARD=other_tool["path"], OTHER_TOOL_LOG=other_tool["log"])
    assert [call.b for call in ranges(trace)] == ["first", "another", "first", ""]
    assert incomplete(trace) == {"NVTX ranges lack their name or domain: more than 3072 are registered": 1}


def test_deep_nesting_loses_and_says_so(record):
    done, trace = record("deep")
    assert Counter(call.b for call in ranges(trace)) == {"level": 64, "after": 1}
    assert [(row["reason"], row["count"]) for row in trace.tables("Loss")] == [("NVTX range nested too deeply", 36)]
    assert_times(next(call for call in ranges(trace) if call.b == "after"), told(done.stdout)["after"])


def test_short_ranges_are_not_recorded(record):
    _, trace = record("cost")
    assert len(ranges(trace)) < 0.01 * 3_000_000


@pytest.mark.parametrize("env", [{"GPUWATCH_TRACE": "cuda,io"}, {"GPUWATCH_DISABLE": "1"}], ids=lambda env: next(iter(env)))
def test_off(inject, guest, run_dir, env):
    assert inject([guest, "calls"], env=env).returncode == 0
    assert not run_dir.exists()


def test_opened_by_nvtx_alone(inject, guest, libgpuwatch, run_dir):
    done = inject([guest, "calls"], env={"LD_PRELOAD": "", "NVTX_INJECTION64_PATH": libgpuwatch})
    assert (done.returncode, done.stderr) == (0, "")
    trace = raw_trace.read_run(run_dir)
    assert {call.b for call in ranges(trace)} >= set(told(done.stdout))
    assert trace.state("io") == "NotPreloaded"


# --- beside another tool

@pytest.fixture
def other_tool(build, tmp_path):
    return {"path": build / "lib/guests/nvtx_other_tool.so", "log": tmp_path / "other.log"}


@pytest.fixture
def alone(other_tool, guest, tmp_path):
    """What the other tool is given when it is alone."""
    log = tmp_path / "alone.log"
    env = {**os.environ, "NVTX_INJECTION64_PATH": str(other_tool["path"]), "OTHER_TOOL_LOG": str(log)}
    subprocess.run([str(guest), "calls"], env=env, check=True, capture_output=True, timeout=60)
    return log.read_text()


def test_who_is_named_keeps_nvtx(inject, guest, other_tool, alone, run_dir):
    done = inject([guest, "calls"], env={"NVTX_INJECTION64_PATH": other_tool["path"], "OTHER_TOOL_LOG": other_tool["log"]})
    assert (done.returncode, done.stderr) == (0, "")
    assert other_tool["log"].read_text() == alone
    assert not run_dir.exists()


def test_both_are_given_every_call(record, other_tool, alone):
    done, trace = record("calls", GPUWATCH_NVTX_FORWARD=other_tool["path"], OTHER_TOOL_LOG=other_tool["log"])
    assert other_tool["log"].read_text() == alone
    assert set(told(done.stdout)) <= {call.b for call in ranges(trace)}
    assert {call.a for call in ranges(trace) if call.b == "registered"} == {"library"}
    assert len(ranges(trace, "ProcessRange")) == 1


def test_a_tool_that_cannot_be_loaded_is_done_without(record):
    _, trace = record("calls", GPUWATCH_NVTX_FORWARD="/nonexistent.so")
    assert trace.state("nvtx") == "On"


# --- the package that Python programs use

PYTHON = """
import nvtx, threading, time

@nvtx.annotate("augment", domain="pipeline", category="loading")
def augment():
    time.sleep(0.001)

for step in range(5):
    with nvtx.annotate("train_step", payload=step):
        augment()
    nvtx.mark("logged", domain="pipeline", payload=step / 2)
whole = nvtx.start_range("evaluation")
time.sleep(0.001)
nvtx.end_range(whole)
"""


def test_python_package(inject, run_dir):
    done = inject([sys.executable, "-c", PYTHON])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = raw_trace.read_run(run_dir)
    steps = [call for call in ranges(trace, "Range") if call.b == "train_step"]
    assert [struct.unpack("<q", struct.pack("<Q", call.detail[0]))[0] for call in steps] == list(range(5))
    inner = [call for call in ranges(trace, "Range") if call.b == "augment"]
    assert {(call.a, call.detail[2]) for call in inner} == {("pipeline", "loading")}
    for outer, call in zip(steps, inner, strict=True):
        assert outer.begin_ns <= call.begin_ns and call.end_ns <= outer.end_ns
    assert [struct.unpack("<d", struct.pack("<Q", c.detail[0]))[0] for c in ranges(trace, "Mark")] == [0, 0.5, 1, 1.5, 2]
    assert [call.b for call in ranges(trace, "ProcessRange")] == ["evaluation"]


# --- what the report makes of them

TRAINING = """
import nvtx, time
for step in range(30):
    with nvtx.annotate(f"train_step {step}"):
        with nvtx.annotate("wait for simulator", domain="environment"):
            time.sleep(0.004)
        sum(range(20000))
    if step == 20:
        with nvtx.annotate("validation"):
            time.sleep(0.2)
"""


def test_steps_phases_and_labels_of_the_report(inject):
    report = inject([sys.executable, "-c", TRAINING]).report()
    (rank,) = report["ranks"]
    assert (rank["steps"]["source"], rank["steps"]["count"]) == ("nvtx", 30)
    assert [p["seconds"] >= 0.2 for p in rank["phases"] if p["kind"] == "evaluation"] == [True]
    (finding,) = [f for f in report["findings"] if f["id"] == "host-work"]
    label = [e for e in finding["evidence"] if e["what"] == "time in NVTX range 'wait for simulator'"]
    assert len(label) == 1 and label[0]["value"] >= 4


NUMBERED = """
import nvtx, time
for step in range(30):
    with nvtx.annotate("forward and backward", payload=step):
        with nvtx.annotate("wait for simulator", category="environment"):
            time.sleep(0.004)
        sum(range(20000))
"""


def test_payloads_that_count_are_steps_and_categories_are_labels(inject):
    report = inject([sys.executable, "-c", NUMBERED]).report()
    (rank,) = report["ranks"]
    assert (rank["steps"]["source"], rank["steps"]["count"]) == ("nvtx", 30)
    (finding,) = [f for f in report["findings"] if f["id"] == "host-work"]
    assert "time in NVTX range 'wait for simulator' of category 'environment'" in [e["what"] for e in finding["evidence"]]
