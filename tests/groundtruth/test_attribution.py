# SPDX-License-Identifier: Apache-2.0
"""Programs with one known stall each, on the simulated device: every category of the report within 1 % of wall time of
what an independent oracle makes of the device's log and the program's own, for the very same run."""

import subprocess

import pytest
from oracle import Oracle

TOLERANCE = 0.01  # of wall time, for each category
MAX_UNKNOWN = 0.02
STEPS = 200
SKIPPED = 5  # at both ends: first steps wait for the loader to fill, the last one for the device to drain

# Workload -> (arguments, first finding). None: nothing above `info`.
WORKLOADS = {
    "input_wait": ([], "dataloader-workers"),
    "pageable_copy": ([], "pin-memory"),
    "sync_each_step": ([], "sync-per-step"),
    # The recorder's own time around each call is the call's in the report and not in the device's log: 110 ns, on a slow
    # and busy machine 280 ns, no more than 1 % of a launch every 45 us.
    "launch_bound": (["--operations", "100", "--dispatch-us", "40"], "launch-bound"),
    "malloc_each_step": ([], "allocator-churn"),
    "exposed_copy": ([], "blocking-copy"),
    "small_batch": ([], "small-batch"),
    "two_streams": ([], None),
    "host_work": ([], "host-work"),
    "log_each_step": ([], "logging-stall"),
    "checkpoint": ([], "checkpoint-stall"),
    "healthy": ([], None),
    # Calls that no hooked symbol sees: the driver alone, and a static runtime.
    "driver_api": ([], "sync-per-step"),
    "pageable_copy_static": ([], "pin-memory"),
}
# Recorded again without LD_PRELOAD, through CUDA_INJECTION64_PATH: programs whose waits need no libc hook.
OPENED = ["driver_api", "sync_each_step", "pageable_copy_static"]


class Recorded:
    """One run of a workload: its report, and what the oracle says about the same run."""

    def __init__(self, name, workloads, inject, tmp_path, env=None):
        arguments, _ = WORKLOADS[name]
        truth, phases = tmp_path / "truth.jsonl", tmp_path / "phases.jsonl"
        environment = {"GWSIM_TRUTH": truth, "GWSIM_PHASES": phases, **(env or {})}
        config = workloads / f"{name}.conf"
        if config.exists():
            environment["GWSIM_CONFIG"] = config
        self.run = inject([workloads / name, "--steps", STEPS, *arguments], env=environment, sim=True, first=True)
        assert self.run.returncode == 0, self.run.stderr
        self.report = self.run.report("--steps", f"{SKIPPED}:{STEPS - SKIPPED}")
        self.oracle = Oracle(truth, phases, skip_first=SKIPPED, skip_last=SKIPPED)


@pytest.fixture(scope="module")
def recorded(request):
    """recorded(name): each workload runs once, whichever test asks first."""
    cache = {}

    def get(name, workloads, inject, tmp_path):
        if name not in cache:
            cache[name] = Recorded(name, workloads, inject, tmp_path)
        return cache[name]

    return get


def shares(totals, wall):
    return {category: ns / wall for category, ns in totals.items()}


def assert_agrees_with_oracle(it):
    rank = it.report["ranks"][0]
    reported = {row["category"]: row["ns"] for row in rank["attribution"]}
    assert sum(reported.values()) == rank["wall_ns"]

    expected = shares(*it.oracle.attribute())
    # The oracle knows what a thread was at, and not whether it slept over it.
    for waiting, work in {"input.wait": "input.transform", "host.wait": "host.compute"}.items():
        reported[work] = reported.get(work, 0) + reported.pop(waiting, 0)
    found = shares(reported, rank["wall_ns"])
    off = {
        category: f"{found.get(category, 0):.2%}, oracle {expected.get(category, 0):.2%}"
        for category in set(expected) | set(found)
        if abs(found.get(category, 0) - expected.get(category, 0)) > TOLERANCE
    }
    assert not off
    assert found.get("unknown", 0) <= MAX_UNKNOWN


@pytest.mark.parametrize("name", WORKLOADS)
def test_attribution_agrees_with_oracle(name, recorded, workloads, inject, tmp_path):
    assert_agrees_with_oracle(recorded(name, workloads, inject, tmp_path))


@pytest.mark.parametrize("name", OPENED)
def test_attribution_without_preload(name, libgpuwatch, workloads, inject, tmp_path):
    it = Recorded(name, workloads, inject, tmp_path, {"LD_PRELOAD": "", "CUDA_INJECTION64_PATH": libgpuwatch})
    assert it.report["coverage"]["launches_matched_share"] == 1.0
    assert_agrees_with_oracle(it)


@pytest.mark.parametrize("name", WORKLOADS)
def test_first_finding(name, recorded, workloads, inject, tmp_path):
    it = recorded(name, workloads, inject, tmp_path)
    complaints = [f["id"] for f in it.report["findings"] if f["severity"] != "info" and f["id"] not in it.run.excused]
    expected = WORKLOADS[name][1]
    assert complaints[:1] == ([expected] if expected else []), it.report["verdict"]


@pytest.mark.parametrize("name", ["healthy", "driver_api", "pageable_copy_static"])
def test_every_kernel_is_recorded_and_matched(name, recorded, workloads, inject, tmp_path):
    it = recorded(name, workloads, inject, tmp_path)
    assert it.report["coverage"]["launches_matched_share"] == 1.0
    assert it.report["trace"]["lost_events"] == 0


def test_results_do_not_change(workloads, sim_lib, inject, tmp_path):
    """The same output with and without injection."""
    command = [workloads / "sync_each_step", "--steps", "20"]
    environment = {"LD_LIBRARY_PATH": str(sim_lib)}
    plain = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=60)
    injected = inject(command, sim=True)
    assert (injected.returncode, injected.stdout, injected.stderr) == (plain.returncode, plain.stdout, plain.stderr)
