# SPDX-License-Identifier: Apache-2.0
"""A file system mounted by the test: what the trace says of it, and what the kernel itself says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import raw_trace
from slow import SlowMount

READER = Path(__file__).with_name("reader.py")
FUSE_SUPER_MAGIC = 0x65735546
pytestmark = pytest.mark.skipif(bool(SlowMount.unavailable()), reason=SlowMount.unavailable() or "")


@pytest.fixture
def folder(tmp_path):
    """A folder with a few files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.bin").write_bytes(os.urandom(40_000))
    return folder


def test_shows_the_folder(build, folder, tmp_path):
    with SlowMount(build, folder, tmp_path / "mnt") as mounted:
        names = sorted(path.name for path in mounted.point.iterdir())
        assert names == ["0.bin", "1.bin", "2.bin"]
        for name in names:
            assert (mounted.point / name).read_bytes() == (folder / name).read_bytes()
    assert not os.path.ismount(tmp_path / "mnt")


@pytest.mark.parametrize(("type", "is_remote"), [("fuse.slowfs", 1), ("fuse.squashfuse", 0)])
def test_blocked_reads_name_their_mount(inject, build, folder, tmp_path, run_dir, type, is_remote):
    point = tmp_path / "mnt"
    with SlowMount(build, folder, point, type=type, open_us=3000, read_us=2000) as mounted:
        device = os.stat(mounted.point).st_dev
        done = inject([sys.executable, READER, mounted.point])
    assert done.returncode == 0, done.stderr
    log = json.loads(done.stdout)
    trace = raw_trace.read_run(run_dir)
    rows = [row for row in trace.tables("Mount") if row["point"] == str(point)]
    assert [(row["type"], row["source"], row["device"], row["is_remote"]) for row in rows] == [
        (type, "slow", device, is_remote)
    ]
    for what, op_class, least_ns in (("open", "Open", 3e6), ("read", "Read", 2e6)):
        own = [call["end_ns"] - call["begin_ns"] for call in log if call["what"] == what]
        seen = [call for call in trace.calls(op_class) if call.detail[2] == str(point)]
        assert len(seen) == len(own) == 9
        for call, length in zip(seen, own, strict=True):
            assert call.detail[3] == FUSE_SUPER_MAGIC
            assert 0.999 * least_ns <= call.end_ns - call.begin_ns <= 1.001 * length


def test_waits_elsewhere_name_another_mount(inject, build, folder, tmp_path, run_dir):
    """The same reads of the folder itself, and of a pipe, are not put on the slow mount."""
    program = (
        "import os, sys, torch\n"
        "torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()\n"
        "for name in os.listdir(sys.argv[1]):\n"
        "    open(os.path.join(sys.argv[1], name), 'rb').read()\n"
        "os.popen('sleep 0.05; echo').read()\n"
    )
    with SlowMount(build, folder, tmp_path / "mnt", read_us=2000):
        done = inject([sys.executable, "-c", program, folder])
    assert done.returncode == 0, done.stderr
    trace = raw_trace.read_run(run_dir)
    reads = [call for call in trace.calls("Read") if call.end_ns - call.begin_ns > 40e6]
    assert reads and all(call.detail[2] == "" for call in reads), "a pipe is on no mount"
    assert not [call for call in trace.all_calls if call.detail[2:3] == (str(tmp_path / "mnt"),)]


def test_the_doctor_sees_it(gpuwatch, build, folder, tmp_path):
    def storage():
        said = subprocess.run([gpuwatch, "doctor"], capture_output=True, text=True, check=True).stdout
        return next(line for line in said.splitlines() if line.startswith("storage"))

    assert str(tmp_path) not in storage()
    with SlowMount(build, folder, tmp_path / "mnt"):
        assert f"{tmp_path / 'mnt'} (fuse.slowfs)" in storage()
