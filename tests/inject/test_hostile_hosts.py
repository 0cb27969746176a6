# SPDX-License-Identifier: Apache-2.0
"""Places where nothing can be written, and limits that leave no room: the job does not notice."""

import json
import os
import subprocess

import pytest

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system, which only root can")


def assert_unharmed(plain, injected):
    """Exit code and output are the job's own; at most one line of ours on stderr."""
    assert injected.returncode == plain.returncode
    assert injected.stdout == plain.stdout
    ours = [line for line in injected.stderr.decode().splitlines() if line not in plain.stderr.decode().splitlines()]
    assert len(ours) <= 1
    assert all(line.startswith("gpuwatch: ") for line in ours)


@pytest.mark.parametrize("limit", ["file-size-limit", "address-space-limit", "descriptor-limit"])
def test_limits(run_both, guests, limit):
    assert_unharmed(*run_both([guests / "processes", limit]))


def test_output_is_a_file(run_both, guests, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("")
    assert_unharmed(*run_both([guests / "threads"], env={"GPUWATCH_OUT": taken}))
    assert taken.read_text() == ""


def test_output_below_a_missing_folder(run_both, guests, tmp_path):
    out = tmp_path / "no/such/folder"
    plain, injected = run_both([guests / "threads"], env={"GPUWATCH_OUT": out})
    assert (injected.returncode, injected.stdout, injected.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert list(out.glob("*.gwt"))
    assert [folder.stat().st_mode & 0o777 for folder in (out, *out.parents[:2])] == [0o700] * 3


def test_output_below_a_file(run_both, guests, tmp_path):
    (tmp_path / "taken").write_text("")
    assert_unharmed(*run_both([guests / "threads"], env={"GPUWATCH_OUT": tmp_path / "taken/folder"}))


@pytest.fixture
def mounted(tmp_path):
    """mounted(options) -> folder with a tmpfs of its own."""
    folder = tmp_path / "mounted"
    folder.mkdir()

    def mount(options):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")
        return folder

    yield mount
    subprocess.run(["umount", folder], capture_output=True)


@as_root
def test_full_disk(run_both, guests, mounted):
    assert_unharmed(*run_both([guests / "threads"], env={"GPUWATCH_OUT": mounted("size=64k") / "run"}))


@as_root
def test_small_disk_is_left_to_the_job(run_both, guests, mounted):
    """As much as there is without us: 60 of 64 MiB."""
    folder = mounted("size=64m")
    job = f"rm -f checkpoint; {guests / 'threads'} storm; head -c 60M /dev/zero > checkpoint; stat -c %s checkpoint"
    assert_unharmed(*run_both(["sh", "-c", job], env={"GPUWATCH_OUT": folder / "run"}, cwd=folder))


@as_root
def test_last_gibibyte_is_left_to_the_job(inject, guests, mounted):
    """6 MiB above it: room for the first segment of the file, not for the second."""
    folder = mounted("size=1030m")
    run = inject([guests / "threads", "storm"], env={"GPUWATCH_OUT": folder / "run"})
    assert (run.returncode, run.stdout, run.stderr) == (0, "threads ended: 1200\n", "")
    left = os.statvfs(folder)
    assert left.f_bavail * left.f_frsize >= 1 << 30
    (trace,) = run.traces
    assert trace.stat().st_size == 4 << 20
    limits = json.loads(run.analyze("--json").stdout)["limits"]
    assert any("the last 5% of the disk" in limit for limit in limits), limits


@as_root
def test_read_only_file_system(run_both, guests, mounted):
    assert_unharmed(*run_both([guests / "threads"], env={"GPUWATCH_OUT": mounted("size=1m,ro") / "run"}))


def test_size_limit_of_the_trace(run_both, guests, run_dir):
    assert_unharmed(*run_both([guests / "threads", "storm"], env={"GPUWATCH_MAX_SIZE": "4MiB"}))
    assert sum(trace.stat().st_size for trace in run_dir.glob("*.gwt")) <= 4 << 20
