#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lays gpuwatch out in a folder as users get it, for the wheel and the tarball: bin/ lib/ share/, stripped.

    scripts/packages/lay_out.py PREFIX [--build build/release] [--program FILE]

--program takes the place of the build's own analyzer (scripts/packages/link_portable.py links one for older systems).
Licenses of what is linked into it go to share/doc/gpuwatch/licenses.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What the analyzer consists of besides gpuwatch: the Debian package that has the license in /usr/share/doc/*/copyright.
# The library has nothing but libgcc.
LINKED = {
    "cli11": "libcli11-dev",
    "dygraphs": "libjs-dygraphs",
    "flatbuffers": "libflatbuffers-dev",
    "fmt": "libfmt-dev",
    "gcc-runtime": "libstdc++6",
    "nlohmann-json": "nlohmann-json3-dev",
    "protozero": "libprotozero-dev",
    "simdjson": "libsimdjson-dev",
    "zlib": "zlib1g-dev",
}
# Of Zig come the unwinder (LLVM's) and the start-up code.
LLVM_LICENSE = ROOT / "build/packages/zig/ziglang/lib/libunwind/LICENSE.TXT"


def copy_licenses(folder, is_portable):
    folder.mkdir(parents=True, exist_ok=True)
    for name, package in LINKED.items():
        source = Path("/usr/share/doc", package, "copyright")
        if not source.exists():
            sys.exit(f"packages: {source} does not exist, the license of {name}; run scripts/setup.sh")
        shutil.copyfile(source, folder / f"{name}.txt")
    if is_portable:
        license_of_zig = LLVM_LICENSE.parents[2] / "LICENSE"
        shutil.copyfile(license_of_zig, folder / "zig.txt")
        if LLVM_LICENSE.exists():
            shutil.copyfile(LLVM_LICENSE, folder / "llvm-libunwind.txt")


def lay_out(prefix, build, program=None):
    shutil.rmtree(prefix, ignore_errors=True)
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    if program:
        shutil.copy(program, prefix / "bin/gpuwatch")
    # --strip-unneeded of what `cmake --install --strip` would do, which keeps the time of the copy in no file.
    for file in ("bin/gpuwatch", "lib/libgpuwatch.so"):
        subprocess.run(["strip", "--strip-unneeded", prefix / file], check=True)
    copy_licenses(prefix / "share/doc/gpuwatch/licenses", is_portable=program is not None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=Path, help="replaced if it exists")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--program", type=Path)
    arguments = parser.parse_args()
    lay_out(arguments.prefix.resolve(), arguments.build.resolve(), arguments.program)


if __name__ == "__main__":
    main()
