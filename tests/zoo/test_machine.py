# SPDX-License-Identifier: Apache-2.0
"""The zoo's rows about the machine: a quota, other processes on the CPUs, a small /dev/shm, one CPU; and what this machine
need not have (steal time, memory pressure, NUMA nodes), by files of the kernel's that made_machine.py writes."""

import contextlib
import os
from pathlib import Path

import pytest
from commands import can_run
from made_machine import MadeMachine
from zoo_case import Case

SCRIPT = "script.py"
PERIOD_US = 100_000


def make_group(cpus):
    """A control group with a CPU quota, which it gets whatever else the machine does; None where this machine does not let us make one."""
    name = f"gpuwatch-zoo-{os.getpid()}-{cpus}"
    for root, files in {
        "/sys/fs/cgroup/cpu": {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": int(cpus * PERIOD_US), "cpu.shares": 262144},
        "/sys/fs/cgroup": {"cpu.max": f"{int(cpus * PERIOD_US)} {PERIOD_US}", "cpu.weight": 10000},
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


def beside_burners(nicer):
    """Command words before a job: two processes a CPU that do nothing but use it, so much nicer, for as long as it lasts."""
    burner = f"nice -n {nicer} timeout 110 sh -c 'while :; do :; done'"
    start = f'for i in $(seq {2 * os.cpu_count()}); do {burner} & burners="$burners $!"; done'
    return ("sh", "-c", f'{start}; "$@"; status=$?; kill $burners; exit $status', "sh")


def test_cpu_contention(zoo):
    """Others on every CPU: training that computes waits for them; beside others that give way it does not."""
    zoo.check(Case(
        "cpu-contention", SCRIPT, has=["--compute-ms", 20, "--train-ms", 1, "--batches", 50],
        neighbour=["--compute-ms", 20, "--train-ms", 20, "--batches", 80],
        prefix=beside_burners(0), neighbour_prefix=beside_burners(39),
        fix={"setting": "CPU affinity", "value": ""}, gain="either",
    ))  # fmt: skip


def test_cpu_undersized(zoo):
    """48 ms of CPU time make a batch for a step of 20 ms, on the only CPU; the neighbour's batches take 8 ms of it."""
    prefix = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
    if not can_run([*prefix, "true"]):
        pytest.skip("no taskset here")
    zoo.check(Case(
        "cpu-undersized", "cpu_dataset.py", has=["--workers", 1, "--decode-ms", 12, "--train-ms", 20, "--batches", 80],
        neighbour=["--workers", 1, "--decode-ms", 2, "--train-ms", 60], prefix=prefix,
        fix={"setting": "CPU cores", "value": "3"}, location="loader = DataLoader(", gain="either",
        behind=("input-decode",), why_behind="cheaper transforms may gain as much",
    ))  # fmt: skip


@pytest.fixture
def machine(tmp_path):
    """machine(steal=0, memory_stall=0, nodes={}, device_node=None): a MadeMachine."""
    with contextlib.ExitStack() as made:
        def make(**facts):
            it = made.enter_context(MadeMachine(tmp_path, **facts))
            if not can_run([*it.prefix, "true"]):
                pytest.skip("this machine allows no mount namespace with files of the test's own")
            return it

        yield make


def test_cpu_steal(zoo, machine):
    """The host takes as much as half of the machine's CPUs; the neighbour's machine counts everything but that."""
    stolen, kept = machine(steal=0.5), machine()
    zoo.check(Case(
        "cpu-steal", SCRIPT, together=True, has=["--train-ms", 80, "--batches", 50], neighbour=["--train-ms", 80, "--batches", 50],
        prefix=stolen.prefix, neighbour_prefix=kept.prefix, fix={"setting": "instance type", "value": ""}, gain="ceiling",
    ))  # fmt: skip


def test_memory_pressure(zoo, machine):
    """Some task waits for memory 30 % of the time; the neighbour's machine counts 1 %."""
    short, enough = machine(memory_stall=0.3), machine(memory_stall=0.01)
    zoo.check(Case(
        "memory-pressure-host", SCRIPT, together=True, has=["--train-ms", 80, "--batches", 50], neighbour=["--train-ms", 80, "--batches", 50],
        prefix=short.prefix, neighbour_prefix=enough.prefix, fix={"setting": "memory", "value": ""}, gain="ceiling",
    ))  # fmt: skip


def test_numa_affinity(zoo, machine):
    """Two nodes, all CPUs on one of them: the simulated device is on the other, the neighbour's on the same."""
    nodes = {0: "1024-1055", 1: f"0-{os.cpu_count() - 1}"}
    far, near = machine(nodes=nodes, device_node=0), machine(nodes=nodes, device_node=1)
    copies = ["--steps", 600]
    zoo.check(Case(
        "numa-affinity", "exposed_copy", together=True, has=copies, neighbour=copies, prefix=far.prefix, neighbour_prefix=near.prefix,
        fix={"setting": "NUMA node", "value": "0"}, gain="ceiling", behind=("blocking-copy",), on_neighbour=("blocking-copy",),
        why_behind="copies beside the computation gain more than nearer ones",
    ))  # fmt: skip


def small_shm(mib):
    return ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={mib}m tmpfs /dev/shm && exec "$@"', "sh")


def test_shm_limit(zoo):
    """Four batches ahead, one in use and one being taken, of 4 MiB each, in 27 MiB; the neighbour's batches are a quarter of that."""
    prefix = small_shm(27)
    if not can_run([*prefix, "true"]):
        pytest.skip("this machine allows no mount namespace with a tmpfs of the test's own")
    zoo.check(Case(
        "shm-limit", "big_batches.py", has=["--batch-mib", 4, "--train-ms", 100], neighbour=["--batch-mib", 1, "--train-ms", 100],
        behind=("collate-cost",), why_behind="4 MiB take a while through shared memory, on a busy machine more of the step",
        prefix=prefix, fix={"setting": "shm-size", "value": "1g"}, gain=None,
    ))  # fmt: skip
