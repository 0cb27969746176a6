# SPDX-License-Identifier: Apache-2.0
"""Delayed storage, as the program itself and as the trace saw it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import raw_trace
from slow import SlowFiles

READER = Path(__file__).with_name("reader.py")
FILES, FILE_BYTES = 4, 64 << 10


@pytest.fixture
def folder(tmp_path):
    """A folder with a few files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(FILES):
        (folder / f"{i}.bin").write_bytes(bytes(FILE_BYTES))
    return folder


def run(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def took_ms(log, what):
    return [(call["end_ns"] - call["begin_ns"]) / 1e6 for call in log if call["what"] == what]


def mount_of(trace, path):
    """The row of the trace's Mount table that `df` names for this path."""
    row = subprocess.run(["df", "--output=target,fstype", path], capture_output=True, text=True).stdout.split()
    point, kind = row[-2:]
    found = [mount for mount in trace.tables("Mount") if mount["point"] == point and mount["type"] == kind]
    assert found and not found[-1]["is_remote"], trace.tables("Mount")
    assert found[-1]["device"] == os.stat(path).st_dev
    return found[-1]


def test_every_call_takes_as_long_as_told(build, folder):
    storage = SlowFiles(build, folder, open_us=5000, read_us=3000, stat_us=2000)
    log = run([sys.executable, READER, folder], {**os.environ, **storage.environment()})
    for what, least in (("open", 5), ("read", 3), ("stat", 2)):
        assert len(took_ms(log, what)) == 3 * FILES
        assert min(took_ms(log, what)) >= least, what


def test_all_processes_share_one_line(build, folder):
    """Two readers of 16 blocks of 64 KiB at 4 MiB/s: the last of 2 MiB cannot arrive before half a second."""
    storage = SlowFiles(build, folder, mib_s=4)
    program = (
        "import os, sys, time\n"
        "begin = time.monotonic()\n"
        "for i in range(16):\n"
        "    fd = os.open(f'{sys.argv[1]}/{i % 4}.bin', os.O_RDONLY)\n"
        "    assert len(os.read(fd, 1 << 20)) == 1 << 16\n"
        "    os.close(fd)\n"
        "print(begin, time.monotonic())"
    )
    environment = {**os.environ, **storage.environment()}
    readers = [
        subprocess.Popen([sys.executable, "-c", program, folder], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    times = [list(map(float, reader.communicate(timeout=60)[0].split())) for reader in readers]
    assert max(end for _, end in times) - min(begin for begin, _ in times) >= 0.499


def test_recorded_waits_are_the_programs_own(build, folder, libgpuwatch, run_dir):
    storage = SlowFiles(build, folder, open_us=4000, read_us=3000, stat_us=2000)
    environment = {**os.environ, **storage.environment(libgpuwatch), "GPUWATCH_OUT": str(run_dir)}
    log = run([sys.executable, READER, folder], environment)
    trace = raw_trace.read_run(run_dir)
    mount = mount_of(trace, folder)
    for what, op_class, least_ms in (("stat", "Stat", 2), ("open", "Open", 4), ("read", "Read", 3)):
        own = [call for call in log if call["what"] == what]
        # The clock of the trace has another origin: compare lengths, in order.
        seen = [c for c in trace.calls(op_class) if c.end_ns - c.begin_ns >= 1.9e6][-len(own) :]
        assert len(seen) == len(own) == 3 * FILES
        for call, logged in zip(seen, own, strict=True):
            length = logged["end_ns"] - logged["begin_ns"]
            assert 0.999 * least_ms * 1e6 <= call.end_ns - call.begin_ns <= 1.001 * length
            if what == "read":
                assert call.detail[0] == logged["bytes"] == FILE_BYTES
            if what != "stat":
                assert call.detail[2] == mount["point"] and call.detail[3] != 0
