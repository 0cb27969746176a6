# SPDX-License-Identifier: Apache-2.0
"""The kernel's files about the machine, as another machine would have them: the job sees them in a mount namespace of its
own, and its recorder reads them as it reads any machine's.

    with MadeMachine(folder, steal=0.5) as machine:
        subprocess.run([*machine.prefix, "python", "train.py"])

/proc/stat is the machine's own but for steal time, which grows by `steal` of the CPUs. Files whose numbers grow are written
anew 20 times a second while the machine is entered.
"""

import os
import shlex
import threading
import time
from pathlib import Path

USER_HZ = 100
STEAL = 8  # word of the first line of /proc/stat
PERIOD_S = 0.05


class MadeMachine:
    count = 0

    def __init__(self, folder, steal=0, memory_stall=0, nodes=None, device_node=None):
        MadeMachine.count += 1
        self.folder = Path(folder) / f"machine{MadeMachine.count}"
        self.folder.mkdir()
        self.steal, self.memory_stall = steal, memory_stall
        self.begin = time.monotonic()
        self.ended = threading.Event()
        self.binds = {"/proc/stat": self.folder / "stat"}
        self.binds.update(dict.fromkeys(pressure_files(), self.folder / "pressure"))
        if nodes:
            self.make_nodes(nodes, device_node)
        self.write()

    def make_nodes(self, nodes, device_node):
        tree = self.folder / "nodes"
        for node, cpus in nodes.items():
            (tree / f"node{node}").mkdir(parents=True)
            (tree / f"node{node}/cpulist").write_text(f"{cpus}\n")
        self.binds["/sys/devices/system/node"] = tree
        devices = self.folder / "pci"
        for number in range(8):  # as cuda/sim numbers its devices
            (devices / f"0000:00:{number:02x}.0").mkdir(parents=True)
            (devices / f"0000:00:{number:02x}.0/numa_node").write_text(f"{device_node}\n")
        self.binds["/sys/bus/pci/devices"] = devices

    @property
    def prefix(self):
        """Command words before a job that is to see this machine."""
        mounts = [f"mount --bind {shlex.quote(str(made))} {file}" for file, made in self.binds.items()]
        return ("unshare", "-m", "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh")

    def write(self):
        seconds = time.monotonic() - self.begin
        first, rest = Path("/proc/stat").read_text().split("\n", 1)
        words = first.split()
        words[STEAL] = str(int(self.steal * os.cpu_count() * seconds * USER_HZ))
        rewrite(self.folder / "stat", f"{words[0]}  {' '.join(words[1:])}\n{rest}")
        stalled_us = int(self.memory_stall * seconds * 1e6)
        rewrite(self.folder / "pressure", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us:012}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")

    def keep_writing(self):
        while not self.ended.wait(PERIOD_S):
            self.write()

    def __enter__(self):
        self.writer = threading.Thread(target=self.keep_writing)
        self.writer.start()
        return self

    def __exit__(self, *failure):
        self.ended.set()
        self.writer.join()


def rewrite(file, text):
    """In place, by one write: the mounted file is this one, and a reader gets the old text or the new one."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
    os.ftruncate(fd, os.write(fd, text.encode()))
    os.close(fd)


def pressure_files():
    """Where memory.pressure is, of the control group and of the machine."""
    own = [line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    groups = [Path(root + path.rstrip("/"), "memory.pressure") for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") for path in [*own, ""]]
    return [file for file in {*groups, Path("/proc/pressure/memory")} if file.exists()]
