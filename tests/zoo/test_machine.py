# SPDX-License-Identifier: Apache-2.0
"""The zoo's rows about the machine: a quota, other processes on the CPUs, a small /dev/shm.

Steal time, memory pressure, NUMA nodes and too few cores cannot be made on any machine that tests run on; those rules are
proved on made-up runs in tests/unit/analyzer_advise/test_machine_rules.cpp alone.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from zoo_case import Case, can_run

SCRIPT = "script.py"
PERIOD_US = 100_000


def make_group(cpus):
    """A control group with a CPU quota, None where this machine does not let us make one."""
    name = f"gpuwatch-zoo-{os.getpid()}-{cpus}"
    for root, files in {
        "/sys/fs/cgroup/cpu": {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": int(cpus * PERIOD_US)},
        "/sys/fs/cgroup": {"cpu.max": f"{int(cpus * PERIOD_US)} {PERIOD_US}"},
    }.items():
        group = Path(root, name)
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            for file, value in files.items():
                with open(group / file, "r+") as setting:  # never made by writing: a group's files are the kernel's
                    setting.write(str(value))
            return group
        except OSError:
            group.rmdir()
    return None


@pytest.fixture
def quota_group():
    groups = []

    def make(cpus):
        group = make_group(cpus)
        if not group:
            pytest.skip("this machine lets the test make no control group with a CPU quota")
        groups.append(group)
        return group

    yield make
    for group in groups:
        with contextlib.suppress(OSError):
            group.rmdir()


def in_group(group):
    return ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")


def test_cpu_quota(zoo, quota_group):
    """Half a CPU for a step that wants one nearly all of the time; the neighbour computes a tenth as much in the same group."""
    zoo.check(Case(
        "cpu-quota", SCRIPT, has=["--compute-ms", 25, "--train-ms", 5], neighbour=["--compute-ms", 3, "--train-ms", 60],
        prefix=in_group(quota_group(0.5)), fix={"setting": "CPU quota", "value": ""}, gain="either",
    ))  # fmt: skip


@contextlib.contextmanager
def burners():
    """Two processes a CPU that do nothing but use it."""
    command = [sys.executable, "-S", "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(2 * os.cpu_count())]
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()


def test_cpu_contention(zoo):
    """Others on every CPU: training that computes waits for them, training that waits for its accelerator does not."""
    with burners():
        zoo.check(Case(
            "cpu-contention", SCRIPT, has=["--compute-ms", 20, "--train-ms", 1, "--batches", 50],
            neighbour=["--train-ms", 80, "--batches", 40],
            fix={"setting": "CPU affinity", "value": ""}, gain="either",
        ))  # fmt: skip


def small_shm(mib):
    return ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={mib}m tmpfs /dev/shm && exec "$@"', "sh")


def test_shm_limit(zoo):
    """Four batches ahead, one in use and one being taken, of 4 MiB each, in 27 MiB; the neighbour's batches are a quarter of that."""
    prefix = small_shm(27)
    if not can_run([*prefix, "true"]):
        pytest.skip("this machine allows no mount namespace with a tmpfs of the test's own")
    zoo.check(Case(
        "shm-limit", "big_batches.py", has=["--batch-mib", 4], neighbour=["--batch-mib", 1],
        prefix=prefix, fix={"setting": "shm-size", "value": "1g"}, gain=None,
    ))  # fmt: skip
