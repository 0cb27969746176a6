# SPDX-License-Identifier: Apache-2.0
"""Storage as slow as a test wants it: delays preloaded into the job (slow_files.c), behind the injected library.

    storage = SlowFiles(build, folder, open_us=3000, read_us=500, mib_s=20)
    subprocess.run(command, env={**os.environ, **storage.environment()})                     # slow, not recorded
    subprocess.run(command, env={**os.environ, **storage.environment(libgpuwatch)})          # slow and recorded
    inject(command, env=storage.environment(libgpuwatch))

Under the delays lies whatever the machine has, so file system type and mount are the machine's own.
"""

from pathlib import Path


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
