# SPDX-License-Identifier: Apache-2.0
"""What stand-ins cannot show: that TensorFlow, JAX and transformers of today still call what gpuwatch wraps. Runs where an
environment has them: build/frameworks/venv (`make frameworks`), build/abroad-venv, or the one that GPUWATCH_TEST_FRAMEWORKS
names."""

import functools
import os
import subprocess
from pathlib import Path

import pytest
import raw_trace

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests/frameworks/programs"
QUIET = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1", "USE_TF": "0"}


@functools.cache
def python_with(package):
    find = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
    named = os.environ.get("GPUWATCH_TEST_FRAMEWORKS")
    for python in (named, ROOT / "build/frameworks/venv/bin/python", ROOT / "build/abroad-venv/bin/python"):
        if python and Path(python).exists() and subprocess.run([python, "-c", find]).returncode == 0:
            return python
    return None


def run(inject, package, program, *words, env=None):
    python = python_with(package)
    if python is None:
        pytest.skip(f"no environment has {package}: run `make frameworks`")
    done = inject([python, PROGRAMS / program, *words], env=QUIET | (env or {}), first=True)
    assert done.returncode == 0, done.stderr
    return done


def is_at(location, program, mark):
    lines = (PROGRAMS / program).read_text().splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if text.endswith("# " + mark))
    return location.endswith(f"/{program}:{line}")


@pytest.mark.parametrize(
    "stage, cause, advice",
    [
        ("map", "input-decode", "Replace tf.py_function with TensorFlow operations"),
        ("parallel", "input-decode", "Replace tf.py_function with TensorFlow operations"),
        ("interleave", "input-decode", "Replace tf.py_function with TensorFlow operations"),
        ("generator", "dataloader-workers", "Make the generator's samples in several processes"),
    ],
)
def test_stage_of_tensorflow_at_its_line(inject, stage, cause, advice):
    report = run(inject, "tensorflow", "train_tfstages.py", stage).report()
    assert report["verdict"]["id"] == "input-bound"
    assert report["ranks"][0]["framework"].startswith("tensorflow ")
    (finding,) = [finding for finding in report["findings"] if finding["id"] == cause]
    assert finding["fix"]["summary"].startswith(advice)
    assert is_at(finding["fix"]["location"], "train_tfstages.py", stage)


@pytest.mark.parametrize("stage", ["map", "parallel", "generator"])
def test_tensorflow_tells_how_long_its_stages_work(inject, stage):
    """Each sample computes for 4 ms of thread time, in one stage or in a function that it calls."""
    job = run(inject, "tensorflow", "train_tfstages.py", stage)
    rows = raw_trace.read_run(job.out).tables("PipelineStage")
    last = [row for row in rows if row["ticks"] == rows[-1]["ticks"]]
    assert last[0]["name"] == "Root" and 0 < last[0]["elements"] <= 40
    batches = last[0]["elements"]
    assert sum(row["processing_ns"] for row in last) >= batches * 8 * 4e6
    for row in last[1:]:
        assert last[row["feeds"]]["bytes_consumed"] > 0


@pytest.mark.parametrize("eager", [True, False])
def test_keras_that_runs_eagerly_is_told_so(inject, eager):
    words = ("tfdata", "1", *(["eager"] if eager else []))
    report = run(inject, "tensorflow", "train_keras.py", *words, env={"KERAS_BACKEND": "tensorflow"}).report()
    found = [finding for finding in report["findings"] if finding["id"] == "debug-left-on"]
    assert len(found) == eager
    if eager:
        assert "run_eagerly" in found[0]["fix"]["summary"]


def test_jax_with_a_generator_is_seen_making_its_data(inject):
    report = run(inject, "jax", "train_jax.py").report()
    assert report["verdict"]["id"] == "input-bound"
    assert report["findings"][0]["id"] == "input-decode"
    (rank,) = report["ranks"]
    assert rank["framework"].startswith("jax ")
    assert rank["training_time"][0]["function"] == "batches"
    assert rank["training_time"][0]["share"] > 0.5


def test_trainer_of_transformers_is_configured_where_its_arguments_are_made(inject):
    report = run(inject, "transformers", "train_transformers.py", "0").report()
    (finding,) = [finding for finding in report["findings"] if finding["id"] == "dataloader-workers"]
    assert "dataloader_num_workers=" in finding["fix"]["summary"]
    assert is_at(finding["fix"]["location"], "train_transformers.py", "loader")


@pytest.mark.parametrize("name", ["transformers", "accelerate", "lightning"])
def test_setting_is_applied_where_the_framework_makes_the_loader(inject, name):
    """Named by the place that a finding names: the Trainer's is the line of its TrainingArguments."""
    program = f"train_{name}.py"
    lines = (PROGRAMS / program).read_text().splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if text.endswith("# loader"))
    report = run(inject, name, program, "0", env={"GPUWATCH_APPLY": f"num_workers=2@{program}:{line}"}).report()
    (loader,) = [loader for loader in report["ranks"][0]["loaders"] if loader["batches"]]
    assert loader["num_workers"] == 2
    (applied,) = report["job"]["applied"]
    assert applied.startswith("num_workers=2 (was 0) at ") and applied.endswith(f"/{program}:{line}")
