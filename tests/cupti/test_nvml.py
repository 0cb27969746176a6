# SPDX-License-Identifier: Apache-2.0
"""What NVML says of the devices, against the configuration of the simulated device that said it."""

import json
import sys
from pathlib import Path

import pytest
from device_trace import DeviceTrace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import raw_trace  # noqa: E402

HEALTHY = {
    "sm_clock_mhz": 1755, "sm_clock_max_mhz": 1980, "throttle_reasons": 0, "power_mw": 412345, "power_limit_mw": 700000,
    "temperature_c": 61, "pcie_generation": 4, "pcie_generation_max": 5, "pcie_width": 8, "pcie_width_max": 16,
    "utilization_percent": 37,
}  # fmt: skip
THROTTLED = {**HEALTHY, "sm_clock_mhz": 700, "throttle_reasons": 0x44, "power_mw": 699000, "temperature_c": 91}


@pytest.fixture
def samples(inject, workloads, tmp_path, run_dir):
    """samples(settings, **environment) -> (rows of DeviceSample, the source's (state, text)) of a run of 1.5 s"""

    def run(settings, **environment):
        config = tmp_path / "device.conf"
        config.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        done = inject(
            [workloads / "input_wait", "--steps", 80], env={"GWSIM_CONFIG": config, **environment}, sim=True
        )
        assert done.returncode == 0, done.stderr
        trace = raw_trace.read_run(run_dir)
        assert len(trace.tables("Sample")) >= 2, "the run was too short for a sample after CUDA was seen"
        return trace.tables("DeviceSample"), (trace.state("nvml"), trace.source("nvml")["text"])

    return run


@pytest.mark.parametrize("settings", [HEALTHY, THROTTLED])
def test_samples_are_what_the_device_said(samples, settings):
    rows, source = samples({**settings, "devices": 1, "memory_gib": 3, "power_limit_default_mw": 750000})
    assert source == ("On", "on")
    assert {row["device"] for row in rows} == {0}
    for row in rows:
        assert {key: row[key] for key in settings} == settings
        assert (row["memory_bytes"], row["other_processes"], row["other_memory_bytes"]) == (3 << 30, 0, 0)
        assert (row["power_limit_default_mw"], row["is_unused"]) == (750000, 0)
        assert row["memory_used_bytes"] > 0


def test_a_device_that_is_not_used_says_who_else_uses_it(samples):
    """NVML's numbers are not CUDA's: the program allocated on CUDA's first device."""
    rows, _ = samples({"devices": 2, "utilization_percent": 37, "other_processes": 1, "other_process_kib": 2048,
                       "other_process_utilization_percent": 11})  # fmt: skip
    used = [row for row in rows if row["device"] == 0]
    unused = [row for row in rows if row["device"] == 1]
    assert used and unused
    assert {(row["is_unused"], row["utilization_percent"], row["other_processes"]) for row in used} == {(0, 37, 1)}
    for row in unused:
        assert (row["is_unused"], row["utilization_percent"], row["other_processes"]) == (1, 11, 1)
        assert (row["memory_used_bytes"], row["sm_clock_mhz"]) == (2048 << 10, 0)


def test_other_processes_are_counted_without_this_one(samples):
    rows, _ = samples({"other_processes": 3, "other_process_kib": 2048, "other_process_utilization_percent": 9})
    assert rows
    assert {(row["other_processes"], row["other_memory_bytes"]) for row in rows} == {(3, 3 * (2048 << 10))}
    assert {(row["is_other_utilization_known"], row["other_utilization_percent"]) for row in rows} == {(1, 27)}


def test_training_does_not_wait_for_nvml(samples, tmp_path):
    phases = tmp_path / "phases"
    rows, _ = samples({"nvml_init_ms": 600}, GWSIM_PHASES=phases)
    steps = [phase for phase in map(json.loads, phases.read_text().splitlines()) if phase["phase"] == "step"]
    assert rows and len(steps) == 80
    assert max(step["end"] - step["begin"] for step in steps) < 600_000_000


def test_a_driver_that_never_answers_stops_nothing_else(inject, workloads, tmp_path, run_dir):
    config = tmp_path / "device.conf"
    config.write_text("nvml_init_ms 100000\n")
    done = inject([workloads / "input_wait", "--steps", 80], env={"GWSIM_CONFIG": config}, sim=True)
    assert done.returncode == 0, done.stderr
    trace = DeviceTrace(run_dir)
    assert (trace.state("nvml"), trace.source("nvml")["text"]) == (
        "Unavailable", "nvmlInit_v2 was called and did not return: no GPU clocks, power or utilization")  # fmt: skip
    kernels = [op for op in trace.ops if op.kind == "kernel"]
    assert len(kernels) == sum("Launch" in call.name for call in trace.calls) > 0


def test_without_the_library_the_source_says_so(samples, sim_lib, tmp_path):
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for library in sim_lib.iterdir():
        if "nvidia-ml" not in library.name:
            (libraries / library.name).symlink_to(library)
    # A file in its place: the one that this machine may have is not found either.
    (libraries / "libnvidia-ml.so.1").write_text("no library\n")
    rows, (state, text) = samples({}, LD_LIBRARY_PATH=libraries)
    assert rows == []
    said = {"Absent": "libnvidia-ml.so.1 not found", "Unavailable": "nvmlInit_v2 failed (error "}
    assert text.startswith(said[state])


def test_off_with_the_system_source(inject, workloads, run_dir):
    done = inject([workloads / "input_wait", "--steps", 5], env={"GPUWATCH_TRACE": "cuda"}, sim=True)
    assert done.returncode == 0, done.stderr
    trace = raw_trace.read_run(run_dir)
    assert trace.tables("DeviceSample") == []
    assert "nvml" not in {row["name"] for row in trace.tables("Source")}
