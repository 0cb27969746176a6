#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a laid-out gpuwatch as a wheel for any Python, and checks that the wheel is what its name says.

    scripts/packages/pack_wheel.py PREFIX [--platform manylinux_2_28_x86_64] [--to dist]

The command is a program in the wheel's scripts folder, so it starts without Python. Packed by hatchling; the same files
give the same wheel, byte for byte. `--platform linux_x86_64` promises nothing and is not checked.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LIMIT_MB = 10


def version():
    """Of project() in CMakeLists.txt, the one place that has it."""
    return re.search(r"^project\(gpuwatch VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def commit_time():
    """SOURCE_DATE_EPOCH where it is set, else the time of the commit, else of 1980, with which ZIP begins."""
    if stated := os.environ.get("SOURCE_DATE_EPOCH"):
        return stated
    done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() or "315532800"


def pack(prefix, platform, to):
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        shutil.copytree(prefix, stage / "prefix")
        shutil.move(stage / "prefix/share/doc/gpuwatch/licenses", stage / "third-party")
        shutil.copyfile(ROOT / "LICENSE", stage / "LICENSE")
        shutil.rmtree(stage / "prefix/share/doc")  # the licenses have their place in a wheel
        shutil.copyfile(ROOT / "README.md", stage / "README.md")
        shutil.copytree(ROOT / "python/gpuwatch", stage / "gpuwatch", ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "hatch_tag.py"):
            shutil.copyfile(HERE / file, stage / file)
        (stage / "version.txt").write_text(version())
        made = stage / "dist"
        environment = {**os.environ, "GPUWATCH_WHEEL_PLATFORM": platform, "SOURCE_DATE_EPOCH": commit_time()}
        done = subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made], cwd=stage, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        if done.returncode:
            sys.exit(f"packages: hatchling failed:\n{done.stdout}")
        wheel = next(made.glob("*.whl"))
        to.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(wheel, to / wheel.name))


def platform_of(wheel):
    """The oldest platform that the wheel's programs and libraries run on, by auditwheel."""
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    words = " ".join(done.stdout.split())
    found = re.search(r'consistent with the following platform tag: "(\w+)"', words)
    return (found[1] if found else "none"), done.stdout


def glibc_of(platform):
    """(2, 28) of manylinux_2_28_x86_64; a platform that promises no glibc sorts behind all that do."""
    found = re.match(r"manylinux_(\d+)_(\d+)_x86_64$", platform)
    return tuple(map(int, found.groups())) if found else (99, 0)


def check(wheel, platform):
    real, words = platform_of(wheel)
    if glibc_of(real) > glibc_of(platform):
        wheel.unlink()
        sys.exit(f"packages: {wheel.name} was removed, because auditwheel finds it fit for {real} only:\n{words}")
    if wheel.stat().st_size > LIMIT_MB * 1e6:
        sys.exit(f"packages: {wheel.name} has {wheel.stat().st_size / 1e6:.1f} MB, more than {LIMIT_MB}; is it stripped?")
    return real


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=Path, help="folder that scripts/packages/lay_out.py filled")
    parser.add_argument("--platform", default="manylinux_2_28_x86_64")
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    wheel = pack(arguments.prefix.resolve(), arguments.platform, arguments.to)
    real = check(wheel, arguments.platform) if arguments.platform.startswith("manylinux") else arguments.platform
    print(f"packages: {wheel}, {wheel.stat().st_size / 1e6:.1f} MB, needs {real}")


if __name__ == "__main__":
    main()
