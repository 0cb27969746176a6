# SPDX-License-Identifier: Apache-2.0
"""Places where nothing can be written, and limits that leave no room: the job does not notice."""

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
    assert_unharmed(*run_both([guests / "threads"], env={"GPUWATCH_OUT": tmp_path / "no/such/folder"}))


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
def test_disk_that_fills_up_while_recording(run_both, guests, mounted):
    """Room for the first segment, none for the next: a store must never meet a page that is not there (SIGBUS)."""
    folder = mounted("size=4200k")
    assert_unharmed(*run_both([guests / "threads", "storm"], env={"GPUWATCH_OUT": folder / "run"}))


@as_root
def test_read_only_file_system(run_both, guests, mounted):
    assert_unharmed(*run_both([guests / "threads"], env={"GPUWATCH_OUT": mounted("size=1m,ro") / "run"}))


def test_size_limit_of_the_trace(run_both, guests, run_dir):
    assert_unharmed(*run_both([guests / "threads", "storm"], env={"GPUWATCH_MAX_SIZE": "4MiB"}))
    assert sum(trace.stat().st_size for trace in run_dir.glob("*.gwt")) <= 4 << 20
