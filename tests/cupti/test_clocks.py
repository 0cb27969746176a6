# SPDX-License-Identifier: Apache-2.0
"""A CUPTI clock that is off, drifts and is set: what the report says of the run stays what the device did.

The device's own log knows when each operation ran. The report's residual is what the analyzer claims to be off by; the
device's share of the recorded steps must be the log's within it.
"""

import pytest
from device_trace import Truth

# The step falls into the middle of a run of some two seconds, with four clock samples.
CLOCKS = {
    "exact": "",
    "skewed": "cupti_skew_us 3600000000\n",
    "fast": "cupti_drift_ppm 200\n",
    "slow": "cupti_drift_ppm -400\ncupti_skew_us -5000000\n",
    "set forward": "cupti_step_ms 30000\ncupti_step_at_ms 800\n",
    "set back": "cupti_step_ms -700\ncupti_step_at_ms 800\n",
    "all": "cupti_skew_us 1000000\ncupti_drift_ppm 100\ncupti_step_ms -60000\ncupti_step_at_ms 800\n",
}


@pytest.mark.parametrize("release", [18, 130001])
@pytest.mark.parametrize("clock", CLOCKS)
def test_the_report_is_the_same(inject, workloads, tmp_path, clock, release):
    config, log = tmp_path / "device.conf", tmp_path / "truth.jsonl"
    config.write_text(f"cupti_api_version {release}\n{CLOCKS[clock]}")
    done = inject([workloads / "trainer", "--steps", 150], env={"GWSIM_CONFIG": config, "GWSIM_TRUTH": log}, sim=True)
    assert (done.returncode, done.stderr) == (0, "")
    report = done.report()
    (rank,) = report["ranks"]
    truth = Truth(log)
    kernels = truth.of_kind("kernel")
    span_s = (max(op["end"] for op in truth.ops) - min(op["start"] for op in truth.ops)) / 1e9
    assert span_s > 1.2, "the run was too short for its clock to be set in the middle"

    steps = 1 if "set" in clock or clock == "all" else 0
    said = [sentence for sentence in report["limits"] if "clock was set" in sentence]
    assert len(said) == steps, report["limits"]
    residual_ns = report["trace"]["clock_error_ns"]
    # Two samples half a second apart, and a rate between them that changes by nothing but noise.
    assert residual_ns < 200_000

    # What ran, or was waited for, while the clock was set back has no duration: its record is lost, and counted.
    assert report["trace"]["lost_events"] <= (2 if "back" in clock or clock == "all" else 0)
    assert report["coverage"]["launches_without_record"] <= report["trace"]["lost_events"]
    assert report["coverage"]["launches_matched_share"] > 0.99

    # All kernels of a step are in it: the device computes for as long as the log says, whatever its clock showed.
    per_step_ns = sum(op["end"] - op["start"] for op in kernels) / 150
    compute = next(row["ns"] for row in rank["attribution"] if row["category"] == "compute")
    recorded = rank["steps"]["recorded"]
    drift = 5e-4  # durations are measured on the drifting clock
    slack = residual_ns * recorded + 2 * per_step_ns
    assert compute == pytest.approx(per_step_ns * recorded, rel=drift, abs=slack)
