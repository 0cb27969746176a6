# SPDX-License-Identifier: Apache-2.0
"""Storage as slow as a test wants it: delays preloaded into the job (slow_files.c), behind the injected library.

    storage = SlowFiles(build, folder, open_us=3000, read_us=500, mib_s=20)
    subprocess.run(command, env={**os.environ, **storage.environment()})                     # slow, not recorded
    subprocess.run(command, env={**os.environ, **storage.environment(libgpuwatch)})          # slow and recorded
    inject(command, env=storage.environment(libgpuwatch))

Under the delays lies whatever the machine has, so file system type and mount are the machine's own. Where the machine
allows it (root and /dev/fuse), a file system of its own is mounted instead (slow_fs.c), which is slow for memory maps
and C libraries, too, has a page cache, and looks remote:

    if reason := SlowMount.unavailable(): pytest.skip(reason)
    with SlowMount(build, folder, tmp_path / "mnt", type="fuse.slowfs", read_us=500) as mounted:
        inject([sys.executable, "train.py", mounted.point])
"""

import os
import subprocess
from pathlib import Path

CAP_SYS_ADMIN = 21


class SlowFiles:
    """The files below `folder`: each call at least as long as told, all processes together at most `mib_s`."""

    def __init__(self, build, folder, open_us=0, read_us=0, stat_us=0, mib_s=0):
        self.folder = Path(folder).resolve()
        self.library = Path(build) / "lib/guests/slow_files.so"
        if not self.library.exists():
            raise FileNotFoundError(f"{self.library}: build target slow_files")
        self.queue = self.folder.with_name(f".{self.folder.name}.queue")
        self.settings = {"OPEN_US": open_us, "READ_US": read_us, "STAT_US": stat_us, "MIB_S": mib_s}

    def environment(self, *preloaded):
        """Variables for the job; `preloaded` are libraries that must see the delays (libgpuwatch.so)."""
        self.queue.write_bytes(bytes(8))  # nobody has asked for anything yet
        return {
            "LD_PRELOAD": ":".join(map(str, [*preloaded, self.library])),
            "SLOW_FILES_FOLDER": str(self.folder),
            "SLOW_FILES_QUEUE": str(self.queue),
            **{f"SLOW_FILES_{name}": str(value) for name, value in self.settings.items()},
        }


class SlowMount:
    """`folder`, read-only, once more at `point`. keep_cache: what was read once is fast from then on, as on a disk."""

    def __init__(
        self, build, folder, point, type="fuse.slowfs", open_us=0, read_us=0, stat_us=0, mib_s=0, keep_cache=False
    ):
        self.point = Path(point)
        delays = (open_us, read_us, stat_us, mib_s, int(keep_cache))
        self.command = [Path(build) / "bin/guests/slow_fs", Path(folder).resolve(), self.point, type, *delays]
        self.server = None

    @staticmethod
    def unavailable():
        """Why this machine cannot mount it, or None."""
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        if not int(status["CapEff"], 16) >> CAP_SYS_ADMIN & 1:  # root in a container may lack it
            return "mounting a file system takes CAP_SYS_ADMIN"
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            return "no /dev/fuse here"
        return None

    def __enter__(self):
        self.point.mkdir(exist_ok=True)
        command = [str(word) for word in self.command]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.server.stdout.readline() != "mounted\n":
            raise OSError(self.server.communicate()[1])
        return self

    def __exit__(self, *failure):
        subprocess.run(["umount", "-l", str(self.point)], check=True)
        self.server.wait(timeout=20)
        self.server.stdout.close()
        self.server.stderr.close()
