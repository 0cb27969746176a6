# SPDX-License-Identifier: Apache-2.0
"""What the samples say of the machine, against limits that the test itself sets and the kernel's own counters."""

import json
import os
import sys
import uuid
from pathlib import Path

import pytest

pytestmark = pytest.mark.beside_others

LIMITED_JOB = Path(__file__).with_name("limited_job.py")
ROOT = Path("/sys/fs/cgroup")
MIB = 1 << 20


class Group:
    """A control group of version 1 or 2 with one limit; removed at the end. OSError where this machine forbids it."""

    def __init__(self, controller, limits_v1, limits_v2):
        v1 = ROOT / controller
        self.is_v1 = v1.is_dir()
        if not self.is_v1 and controller not in (ROOT / "cgroup.subtree_control").read_text().split():
            raise OSError(f"the controller {controller} is not handed down")
        self.path = (v1 if self.is_v1 else ROOT) / f"gpuwatch-test-{uuid.uuid4().hex[:8]}"
        self.path.mkdir()
        for name, value in (limits_v1 if self.is_v1 else limits_v2).items():
            (self.path / name).write_text(str(value))

    def remove(self):
        self.path.rmdir()


@pytest.fixture
def group():
    """group(controller, limits of version 1, limits of version 2)"""
    made = []

    def make(*arguments):
        try:
            made.append(Group(*arguments))
        except OSError as error:
            pytest.skip(f"no control group can be made here: {error}")
        return made[-1]

    yield make
    for each in made:
        each.remove()


@pytest.fixture
def limited_job(inject, run_dir):
    """limited_job(kept MiB, group...) -> (its own words, the trace)"""

    def run(kept_mib, *groups):
        done = inject([sys.executable, LIMITED_JOB, kept_mib, *(group.path for group in groups)])
        assert done.returncode == 0, done.stderr
        import raw_trace

        return json.loads(done.stdout), raw_trace.read_run(run_dir)

    return run


def test_a_quota_and_its_throttling(limited_job, group):
    # Little enough that even a busy machine would give more.
    quota = group("cpu", {"cpu.cfs_period_us": 100_000, "cpu.cfs_quota_us": 10_000}, {"cpu.max": "10000 100000"})
    own, trace = limited_job(0, quota)
    assert trace.facts()["cpu_quota"] == "0.10"
    assert int(trace.facts()["cpu_affinity"]) == own["affinity"]
    (count_before, ns_before), (count_after, ns_after) = own["before"][0], own["after"][0]
    assert count_after > count_before, "the kernel did not throttle: nothing to see"
    samples = trace.tables("Sample")
    counts = [sample["throttled_count"] for sample in samples]
    times = [sample["throttled_ns"] for sample in samples]
    assert len(samples) >= 3
    assert counts == sorted(counts) and times == sorted(times)
    # The first and the last step stand right beside the program's own readings.
    assert count_before <= counts[0] <= counts[-1] <= count_after
    assert ns_before <= times[0] <= times[-1] <= ns_after
    assert counts[-1] - counts[0] >= 0.5 * (count_after - count_before)


def test_memory_left_below_the_limit(limited_job, group):
    limit = 2048 * MIB
    memory = group("memory", {"memory.limit_in_bytes": limit}, {"memory.max": limit})
    _, trace = limited_job(300, memory)
    assert int(trace.facts()["memory_limit_bytes"]) == limit
    left = [sample["memory_available_bytes"] for sample in trace.tables("Sample")]
    assert 0 < max(left) <= limit
    assert left[0] - left[-1] >= 290 * MIB


def test_without_limits_the_machines_own_memory(limited_job):
    own, trace = limited_job(0)
    total = int(trace.facts()["memory_bytes"])
    samples = trace.tables("Sample")
    assert all(0 < sample["memory_available_bytes"] <= total for sample in samples)
    assert samples[0]["cpu_ns"] < samples[-1]["cpu_ns"] <= own["cpu_ns"] + 2 * 10**7
    assert all(sample["cpu"] < os.cpu_count() for sample in samples)
    assert samples[-1]["cpu_total_ns"] > samples[0]["cpu_total_ns"]
