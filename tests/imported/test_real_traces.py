# SPDX-License-Identifier: Apache-2.0
"""Traces that torch.profiler made on real GPUs, read by the analyzer.

They lie beside the working copy (shared/traces: test data of HolisticTraceAnalysis and TraceLens) and are no part of it; without them
these tests are skipped. The oracle is a plain reading of the JSON: counts, and the time in which any operation ran.
"""

import gzip
import json
import subprocess
from pathlib import Path

import pytest

FOLDERS = [parent / "shared/traces" for parent in Path(__file__).resolve().parents]
FOLDER = next((folder for folder in FOLDERS if folder.is_dir()), None)
pytestmark = pytest.mark.skipif(FOLDER is None, reason="no real GPU traces beside this working copy (shared/traces)")

BUSY = ("kernel", "gpu_memcpy", "gpu_memset")
# file: (device, rank, steps, where steps come from)
TRACES = {
    "alexnet_a100": ("NVIDIA A100-PG509-200", 0, None, None),
    "sgd_v100_rank0": ("Tesla V100-SXM2-32GB", 0, 5, "profiler"),
    "fusedadam_8xa100_rank3": ("NVIDIA A100-PG509-200", 3, 6, "profiler"),
    "resnet_checkpointing_mi300": ("AMD Instinct MI300X", 0, 3, "profiler"),
    "gpu_only_mi210": ("AMD Instinct MI210", 0, None, None),
    "qwen_h100": ("NVIDIA H100 80GB HBM3", 0, 1, "profiler"),
    "eager_b200": ("NVIDIA B200", 0, None, None),
}


def analyze(gpuwatch, path, *options):
    done = subprocess.run([gpuwatch, "analyze", path, *options], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def ns(event):
    begin = round(event["ts"] * 1000)
    return begin, begin + round(event["dur"] * 1000)


def busy_ns(events, begin, end):
    """How long between the two any of these ran."""
    busy, covered = 0, begin
    for a, b in sorted(ns(event) for event in events):
        a, b = max(a, covered), min(b, end)
        if b > a:
            busy, covered = busy + b - a, b
    return busy


@pytest.mark.parametrize("name", TRACES)
def test_report_agrees_with_a_plain_reading(gpuwatch, name):
    path = FOLDER / f"{name}.json.gz"
    with gzip.open(path) as file:
        trace = json.load(file)
    report = json.loads(analyze(gpuwatch, path, "--json"))
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    device, rank_number, step_count, source = TRACES[name]
    (rank,) = report["ranks"]
    assert (rank["device"], rank["rank"]) == (device, rank_number)

    # Every kernel is there, and is matched where a call with its correlation id is.
    kernels = [event for event in events if event["cat"] == "kernel"]
    calls = {event["args"]["correlation"] for event in events if event["cat"].startswith("cuda_") and "Launch" in event["name"]}
    launches = report["coverage"]["calls_without_record"]
    matched = sum(kernel["args"]["correlation"] in calls for kernel in kernels)
    expected = matched / (len(kernels) + launches["launches"] + launches["graph_launches"])
    assert report["coverage"]["launches_matched_share"] == pytest.approx(expected)
    unmatched = len(kernels) - matched
    assert any(f"{unmatched} of {len(kernels)} kernels" in limit for limit in report["limits"]) == (unmatched > 0)
    assert report["trace"]["events"] == len(trace["traceEvents"])
    assert any("torch.profiler" in limit for limit in report["limits"])

    # Categories tile the steps, and the device is busy for as long as the file says.
    categories = {row["category"]: row["ns"] for row in rank["attribution"]}
    assert sum(categories.values()) == rank["wall_ns"]
    if source:
        assert (rank["steps"]["count"], rank["steps"]["source"]) == (step_count, source)
        marks = [event for event in events if event["cat"] != "gpu_user_annotation"]  # the device's copy of a mark
        steps = sorted(ns(event) for event in marks if event["name"].startswith("ProfilerStep#"))
        first = rank["steps"]["count"] - rank["steps"]["recorded"]  # those before it are warm-up
        begin, end = steps[first][0], steps[-1][1]
        assert rank["wall_ns"] == pytest.approx(end - begin, abs=1000)
        found = sum(time for category, time in categories.items() if category in ("compute", "comm.unsplit") or category.startswith("copy.") and category != "copy.staging")
        work = [event for event in events if event["cat"] in BUSY]
        # A double has 0.25 us of these time stamps, which Python reads as such.
        assert found == pytest.approx(busy_ns(work, begin, end), abs=len(work) * 500)
        assert found / rank["wall_ns"] == pytest.approx(busy_ns(work, begin, end) / (end - begin), abs=0.001)


def test_data_waits_are_those_of_the_file(gpuwatch):
    path = FOLDER / "fusedadam_8xa100_rank3.json.gz"
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    waits = [event["dur"] for event in events if event["name"].startswith("enumerate(DataLoader)#")]
    (loader,) = json.loads(analyze(gpuwatch, path, "--json"))["ranks"][0]["loaders"]
    assert loader["batches"] == len(waits) == 6
    assert loader["wait_s"] == pytest.approx(sum(waits) / 1e6)


@pytest.mark.parametrize("name", TRACES)
def test_report_for_people(gpuwatch, name):
    text = " ".join(analyze(gpuwatch, FOLDER / f"{name}.json.gz").split())  # whatever the line breaks
    assert TRACES[name][0] in text
    confidence = text.split(" confidence ")[1].split(" not seen ")[0]
    assert "overhead" not in confidence  # gpuwatch had none; the profiler's is not known


@pytest.mark.parametrize("name, kernels", [("gpu_only_mi210", 562), ("resnet_checkpointing_mi300", 2995)])
def test_kernels_of_amd_gpus_have_their_launches(gpuwatch, name, kernels):
    """Their calls begin with hip; 0% of kernels were matched, and no training was seen."""
    report = json.loads(analyze(gpuwatch, FOLDER / f"{name}.json.gz", "--json"))
    assert report["verdict"]["id"] != "no-training"
    assert report["coverage"]["launches_matched_share"] > 0.7  # the rest has no call in the file
    assert report["ranks"][0]["device"].startswith("AMD Instinct")


def test_ranks_of_different_jobs_are_refused(gpuwatch):
    files = [FOLDER / "fusedadam_8xa100_rank3.json.gz", FOLDER / "sgd_v100_rank0.json.gz"]
    done = subprocess.run([gpuwatch, "analyze", *files], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert "of different jobs: one has 8 ranks, the other 1; analyze them apart" in done.stderr


def merged(spans):
    """Disjoint spans in order."""
    result = []
    for a, b in sorted(spans):
        if result and a <= result[-1][1]:
            result[-1][1] = max(result[-1][1], b)
        else:
            result.append([a, b])
    return result


def overlap(first, second):
    return sum(max(0, min(b, d) - max(a, c)) for a, b in first for c, d in second)


def test_hidden_communication_is_that_of_the_file(gpuwatch):
    """46% of 164 ms with a collective have a kernel next to it."""
    path = FOLDER / "fusedadam_8xa100_rank3.json.gz"
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    report = json.loads(analyze(gpuwatch, path, "--json"))
    marks = sorted(ns(event) for event in events if event.get("name", "").startswith("ProfilerStep#"))
    skipped = report["ranks"][0]["steps"]["count"] - report["ranks"][0]["steps"]["recorded"]
    steps = [[marks[skipped][0], marks[-1][1]]]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    collectives = merged(ns(event) for event in kernels if event["name"].startswith("nccl"))
    compute = merged(ns(event) for event in kernels if not event["name"].startswith("nccl"))
    within = [[max(a, c), min(b, d)] for a, b in collectives for c, d in steps if min(b, d) > max(a, c)]
    hidden = overlap(within, compute) / sum(b - a for a, b in within)
    found = report["ranks"][0]["device_work"]["communication"]
    assert found["hidden_share"] == pytest.approx(hidden, abs=0.005)
    finding = next(finding for finding in report["findings"] if finding["id"] == "exposed-communication")
    assert finding["evidence"][1]["value"] == pytest.approx(100 * hidden, abs=0.5)
    assert finding["ceiling"]["speedup"] <= 1 / (1 - found["exposed_ns"] / report["ranks"][0]["wall_ns"]) + 1e-6


@pytest.mark.parametrize("name", TRACES)
def test_nearly_all_kernels_have_a_class(gpuwatch, name):
    """In seven traces of six kinds of GPU; a class for what no name tells would be a guess."""
    classes = json.loads(analyze(gpuwatch, FOLDER / f"{name}.json.gz", "--json"))["ranks"][0]["device_work"]["kernel_classes"]
    times = {row["class"]: row["ns"] for row in classes}
    assert times.get("other", 0) < 0.06 * sum(times.values()), times
    assert all(row["alone_ns"] <= row["ns"] for row in classes)


@pytest.mark.parametrize("name", TRACES)
def test_kernels_are_listed_when_asked(gpuwatch, name):
    text = analyze(gpuwatch, FOLDER / f"{name}.json.gz", "--kernels")
    assert "GPU work by class" in text and "kernels that take most of the time" in text
    assert max(map(len, text.splitlines())) <= 80
