#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a laid-out gpuwatch as dist/gpuwatch-<version>-linux-x86_64.tar.gz, which works in whatever folder it is unpacked.

    scripts/packages/pack_tarball.py PREFIX [--to dist]

The same files give the same archive, byte for byte.
"""

import argparse
import gzip
import tarfile
from pathlib import Path

from pack_wheel import ROOT, commit_time, version


def pack(prefix, to):
    name = f"gpuwatch-{version()}-linux-x86_64"
    to.mkdir(parents=True, exist_ok=True)
    archive = to / f"{name}.tar.gz"

    def reproducible(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = int(commit_time())
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with archive.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            tar.add(prefix, name, recursive=False, filter=reproducible)
            for path in sorted(prefix.rglob("*")):
                tar.add(path, f"{name}/{path.relative_to(prefix)}", recursive=False, filter=reproducible)
    return archive


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=Path, help="folder that scripts/packages/lay_out.py filled")
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    archive = pack(arguments.prefix.resolve(), arguments.to)
    print(f"packages: {archive}, {archive.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
