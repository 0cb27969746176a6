# SPDX-License-Identifier: Apache-2.0
"""Copies the parts of a build that the acceptance run needs to one folder of about 20 MiB, for a machine that has only
Python: the library, the analyzer (stripped) with its shared libraries, the workloads, their runtime and CUPTI."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from abroad_sections import on_a_device
from rig import BUILD, LIBRARY, ROOT, RUNTIME, WORKLOADS

# glibc must be the machine's.
GLIBC = re.compile(r"/(ld-linux|lib(c|m|dl|pthread|rt)\.so)")


def shared_libraries(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(path) for path in re.findall(r"=> (/\S+)", listed) if not GLIBC.search(path)]


def copy_programs(folder):
    """Compiled programs of tests/abroad and the data of those that need a GPU (abroad_sections.py), where they were made."""
    home = ROOT / "build/abroad"
    data = {case.data for case in on_a_device() if case.data}
    for part in ("bin", *(f"data/{kind}" for kind in data)):
        if (home / part).is_dir():
            shutil.copytree(home / part, folder / part, dirs_exist_ok=True)


def make(folder):
    for name in ("bin/workloads", "lib/own", "lib/cuda"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    analyzer = folder / "bin/gpuwatch"
    shutil.copy(BUILD / "bin/gpuwatch", analyzer)
    shutil.copy(LIBRARY, folder / "lib")
    for copy in (analyzer, folder / "lib" / LIBRARY.name):
        subprocess.run(["strip", "--strip-debug", copy], check=True)
    for library in shared_libraries(analyzer):
        shutil.copy(library, folder / "lib/own")
    for name in (RUNTIME, "libcupti.so.13"):  # CUPTI is searched in the folder of the runtime
        if (ROOT / "build/cuda/lib" / name).exists():
            shutil.copy(ROOT / "build/cuda/lib" / name, folder / "lib/cuda")
    for workload in WORKLOADS.iterdir():
        shutil.copy(workload, folder / "bin/workloads")
    copy_programs(folder / "abroad")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size >> 20} MiB; on the other machine run: GPUWATCH_BUILD={folder} scripts/gpu_acceptance.sh", file=sys.stderr)
