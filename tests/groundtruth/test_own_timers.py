# SPDX-License-Identifier: Apache-2.0
"""Programs that print how long they waited for data, the way training scripts and I/O benchmarks do: gpuwatch says the same."""

import json
import random
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).with_name("programs")
sys.path[:0] = [str(ROOT / "scripts/demo"), str(ROOT / "tests/python")]

import raw_trace  # noqa: E402
from make_images import make_images  # noqa: E402


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    make_images(folder, 96)
    # The same pictures again: what matters is how many are decoded.
    for path in list(folder.glob("*/*.jpg")):
        for copy in range(15):
            path.with_name(f"{path.stem}-{copy}.jpg").write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize("workers", [0, 1])
def test_data_time_of_an_imagenet_script(workers, images, inject):
    """Data-bound steps of at least 0.3 s, printed rarely: the script's "Data" average times its steps is wait_s, within 1 %."""
    run = inject([sys.executable, PROGRAMS / "imagenet_meter.py", images, "--workers", workers], first=True)
    assert run.returncode == 0, run.stderr
    step, data, steps = None, None, 0
    for line in run.stdout.splitlines():
        found = re.search(r"\[0\]\[(\d+)/\d+\]\tTime .*\(([\d.]+)\)\tData .*\(([\d.]+)\)", line)
        steps, step, data = int(found[1]), float(found[2]), float(found[3])
    assert step >= 0.3
    report = run.report()
    (loader,) = report["ranks"][0]["loaders"]
    assert loader["batches"] == steps
    # The script's first interval holds the making of the iterator, too; gpuwatch keeps that apart.
    (started,) = raw_trace.read_run(run.out).calls("LoaderStart")
    startup_s = (started.end_ns - started.begin_ns) / 1e9
    assert loader["wait_s"] + startup_s == pytest.approx(data * steps, rel=0.01)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    for number in range(160):
        (folder / f"{number:03}.rec").write_bytes(random.Random(number).randbytes(1 << 17))
    return folder


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_accelerator_utilisation_of_an_io_benchmark(workers, records, inject):
    """What the accelerator is idle for is the input's share, within one point."""
    run = inject([sys.executable, PROGRAMS / "emulated_training.py", records, "--workers", workers], first=True)
    assert run.returncode == 0, run.stderr
    own = json.loads(run.stdout)
    rank = run.report()["ranks"][0]
    warm_up = rank["steps"]["count"] - rank["steps"]["recorded"]
    if warm_up == 0:
        rank = run.report("--steps", f"1:{own['steps']}")["ranks"][0]  # the benchmark leaves out its first step
    assert warm_up <= 1
    waiting = sum(row["ns"] for row in rank["attribution"] if row["category"].startswith("input.") or row["category"] == "phase")
    assert 1 - waiting / rank["wall_ns"] == pytest.approx(own["au"], abs=0.01)
    assert 0.1 < own["au"] < 0.9  # else there was nothing to measure
