# SPDX-License-Identifier: Apache-2.0
"""Programs that are no training jobs: same exit code, same output, no file."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.beside_others

COMMANDS = {
    "true": ["/bin/true"],
    "false": ["/bin/false"],
    "ls": ["ls", "-la", "/usr/bin"],
    "missing-file": ["cat", "/nonexistent"],
    "pipeline": ["bash", "-c", "set -o pipefail; seq 100000 | sort -rn | uniq -c | tail -3; echo ${PIPESTATUS[@]}"],
    "here-document": ["bash", "-c", "cat <<EOF | tr a-z A-Z\nabc\nEOF\nexit 3"],
    "subshells": ["bash", "-c", "for i in $(seq 30); do (exit $i) || true; done; echo done"],
    "killed": ["bash", "-c", "kill -TERM $$"],
    "python": [sys.executable, "-c", "pass"],
    "python-fork": [sys.executable, "-c", "import os; p = os.fork(); p or os._exit(5); print(os.waitpid(p, 0)[1])"],
    "python-subprocess": [sys.executable, "-c", "import subprocess as s; print(s.run(['sh', '-c', 'exit 4']).returncode)"],
    "python-threads": [
        sys.executable,
        "-c",
        "import threading, time; t = [threading.Thread(target=time.sleep, args=(.001,)) for _ in range(50)];"
        "[x.start() for x in t]; [x.join() for x in t]; print(threading.active_count())",
    ],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_command(dormant, name):
    dormant(COMMANDS[name])


def test_large_file_through_pipes(dormant, tmp_path):
    data = tmp_path / "data"
    data.write_bytes(os.urandom(16 << 20))
    dormant(["bash", "-c", f"cat {data} | cat | sha256sum"])


def test_standard_input(dormant):
    dormant(["cat"], input=b"through\n" * 1000)


def test_adds_no_thread(dormant):
    dormant([sys.executable, "-c", "import os; print(len(os.listdir('/proc/self/task')))"])


def test_adds_no_descriptor(dormant):
    dormant([sys.executable, "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))"])


def test_static_program(dormant, guests):
    dormant([guests / "static_hello"])


def test_empty_environment(dormant):
    dormant(["env", "-i", "/bin/sh", "-c", "echo $LD_PRELOAD; exit 6"])


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a setuid program, which only root can")
def test_setuid_program(libgpuwatch, guests, guest_libraries, run_dir):
    """The loader drops or loads the library as it sees fit; either way nothing is written on somebody's behalf."""
    folder = Path("/tmp") / f"gpuwatch-setuid-{os.getpid()}"  # traversable by nobody, unlike pytest's folders
    folder.mkdir(mode=0o755)
    try:
        program = folder / "id"
        shutil.copy(shutil.which("id"), program)
        program.chmod(0o4755)
        out = folder / "run"
        command = ["setpriv", "--reuid=65534", "--clear-groups", program, "-u"]
        done = subprocess.run(
            [str(word) for word in command],
            env={**os.environ, "LD_PRELOAD": str(libgpuwatch), "GPUWATCH_OUT": str(out)},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        plain = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (0, "0\n")
        # ld.so itself may say that it could not preload from there; we say nothing.
        assert "gpuwatch:" not in done.stderr
        assert not out.exists()
    finally:
        shutil.rmtree(folder)
