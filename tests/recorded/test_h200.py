# SPDX-License-Identifier: Apache-2.0
"""Jobs that were recorded on an NVIDIA H200 (November 2026), analyzed again. What is expected comes from the programs: how many
steps they made, their own clock, and how long a step took with the fix applied (truth.json; paths in the traces were shortened).
What only hardware does is in these traces: times between kernels, threads of the driver, XLA's graphs, copies that slow down."""

import json
import subprocess
from pathlib import Path

import pytest
from recorded_trace import unpack

HERE = Path(__file__).resolve().parent
TRUTH = json.loads((HERE / "truth.json").read_text())
CUT_STEPS = 2  # the first one begins, and the last one ends, outside of what launches show
CLOCK = 0.01  # between the program's clock, which starts 20 steps later, and the mean of all steps


@pytest.fixture(scope="module")
def report(gpuwatch, tmp_path_factory):
    """report(name) -> the report of a recording, as JSON"""
    known = {}

    def read(name):
        if name not in known:
            folder = unpack(name, tmp_path_factory.mktemp(name))
            done = subprocess.run([gpuwatch, "analyze", folder, "--json"], capture_output=True, text=True, timeout=120)
            assert (done.returncode, done.stderr) == (0, "")
            known[name] = json.loads(done.stdout)
        return known[name]

    return read


def first_complaint(report):
    return next(finding for finding in report["findings"] if finding["severity"] != "info")


@pytest.mark.parametrize("name", TRUTH)
def test_nothing_is_lost_and_all_time_has_a_cause(report, name):
    said = report(name)
    (rank,) = said["ranks"]
    assert said["coverage"]["launches_matched_share"] == 1
    assert rank["wall_ns"] == sum(row["ns"] for row in rank["attribution"])
    assert rank["device"] == "NVIDIA H200"


@pytest.mark.parametrize("name", TRUTH)
def test_steps_are_the_programs(report, name):
    steps, truth = report(name)["ranks"][0]["steps"], TRUTH[name]
    assert truth["steps"] - CUT_STEPS <= steps["count"] <= truth["steps"]
    if "step_ms" in truth:
        assert steps["mean_ms"] == pytest.approx(truth["step_ms"], rel=CLOCK)


@pytest.mark.parametrize("name", TRUTH)
def test_the_first_finding_names_the_fix_that_gains_most(report, name):
    first, truth = first_complaint(report(name)), TRUTH[name]
    assert first["id"] in truth["right"]
    if "every" in truth:
        assert f"every {truth['every']}th step" in first["title"]


@pytest.mark.parametrize("name", [name for name, truth in TRUTH.items() if "achieved_ms" in truth])
def test_the_prediction_comes_true(report, name):
    prediction = first_complaint(report(name))["prediction"]
    assert prediction["metric"] == "step_ms"
    assert prediction["low"] <= TRUTH[name]["achieved_ms"] <= prediction["high"]


@pytest.mark.parametrize("name", [name for name, truth in TRUTH.items() if "predicted" in truth])
def test_the_replay_is_good_enough_for_a_prediction(report, name):
    """Not more than that: recording made its step 11% longer, and a prediction from it is as much too long."""
    assert first_complaint(report(name))["prediction"]
