#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links BUILD's analyzer a second time, for every machine with glibc 2.28 or newer: build/packages/portable/gpuwatch.

GCC's own link takes the C++ library and the newest symbols of this machine's glibc. This one takes the same object
files, those that the tests ran with, and links them statically with libstdc++, fmt, simdjson and zlib, and against the
glibc 2.28 that `zig` brings along. Zig compiles nothing of gpuwatch. A function that glibc 2.28 lacks is an error here,
so that a newer compiler or system cannot raise the floor unnoticed. At the end both programs report on the traces of
tests/recorded, and have to say the same. (A fully static program could not open libcuda or NVML, which `gpuwatch doctor`
does.)

Debian has fmt and simdjson as shared libraries only. Their sources come from Debian's source packages, in the version of
the headers that the object files were compiled with.
"""

import argparse
import lzma
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build/packages"
ZIG = "ziglang==0.15.2"
GLIBC = "2.28"
# Package of the headers: what to compile of its source package.
SOURCES = {"libfmt-dev": "src/format.cc", "libsimdjson-dev": "singleheader/simdjson.cpp"}
# The one thing that libstdc++ and its headers ask of a glibc newer than 2.28: whether a second thread was ever started,
# to save atomic operations. "Perhaps" is always a right answer.
LATER_GLIBC = "char __libc_single_threaded = 0;\n"


class PackagingError(Exception):
    """One sentence: what, where, what to do."""


def run(command, log, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(done.stdout)
    if done.returncode:
        raise PackagingError(f"{command[0]} failed; its messages are in {log}:\n{done.stdout[-2000:]}")
    return done.stdout


def zig():
    """The command of the pinned compiler, installed where no other part of the build sees it."""
    place, stamp = PLACE / "zig", PLACE / "zig/.packages"
    if not stamp.exists() or stamp.read_text() != ZIG:
        print(f"packages: fetching {ZIG} from the package index into {place.relative_to(ROOT)} (94 MB to download)", flush=True)
        run([sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input", "--upgrade",
             "--target", place, ZIG], PLACE / "zig.log")  # fmt: skip
        stamp.write_text(ZIG)
    return [str(place / "ziglang/zig")]


def apt_get_source(package):
    """Downloads the source package of the installed package, checked against Debian's signatures, without a change to the system."""
    query = run(["dpkg-query", "-W", "-f", "${source:Package}=${source:Version}", package], PLACE / "dpkg.log")
    index, place = PLACE / "sources", PLACE / "sources" / query.replace("=", "_").replace(":", "%3a")
    if not list(place.glob("*.orig.tar.*")):
        for folder in (index / "lists/partial", index / "parts", place):
            folder.mkdir(parents=True, exist_ok=True)
        for file in [*Path("/etc/apt").glob("sources.list"), *Path("/etc/apt/sources.list.d").glob("*.[ls]*")]:
            text = re.sub(r"^Types:.*", "Types: deb-src", file.read_text(), flags=re.MULTILINE)
            (index / "parts" / file.name).write_text(re.sub(r"^deb(?=\s)", "deb-src", text, flags=re.MULTILINE))
        options = [f"-oDir::Etc::sourceparts={index}/parts", "-oDir::Etc::sourcelist=/dev/null", f"-oDir::State::lists={index}/lists"]
        print(f"packages: fetching the source of {query} (2 MB to download, and once 10 MB, the index of sources)", flush=True)
        run(["apt-get", *options, "update"], PLACE / "apt.log")
        run(["apt-get", *options, "source", "--download-only", query], PLACE / "apt.log", cwd=place)
    return next(place.glob("*.orig.tar.*"))


def compile_source(package, file):
    """The object file of one source of a package, by GCC, as the package itself would be compiled."""
    archive = apt_get_source(package)
    compiled = archive.parent / (Path(file).stem + ".o")
    if not compiled.exists():
        with tarfile.open(archive) as tar:
            member = next((member for member in tar if member.name.endswith("/" + file)), None)
            if not member:
                raise PackagingError(f"{archive} has no {file}")
            source = archive.parent / Path(file).name
            source.write_bytes(tar.extractfile(member).read())
        # With the installed headers: only the one source was unpacked.
        run(["g++", "-std=c++17", "-O2", "-fPIC", "-DNDEBUG", "-ffunction-sections", "-c", source, "-o", compiled], PLACE / "compile.log")
    return compiled


def system_archive(name):
    path = subprocess.run(["g++", f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise PackagingError(f"g++ finds no {name}; run scripts/setup.sh")
    return path


def link(build):
    program = PLACE / "portable/gpuwatch"
    program.parent.mkdir(parents=True, exist_ok=True)
    later = PLACE / "later_glibc.c"
    later.parent.mkdir(parents=True, exist_ok=True)
    later.write_text(LATER_GLIBC)
    run(["gcc", "-O2", "-fPIC", "-fvisibility=hidden", "-c", later, "-o", later.with_suffix(".o")], PLACE / "compile.log")
    main = build / "analyzer/CMakeFiles/gpuwatch.dir/cli/main.cpp.o"
    layers = [*sorted((build / "analyzer").glob("libanalyzer_*.a")), build / "libinject/libmachine.a"]
    ordinary = build / "bin/gpuwatch"
    if not ordinary.exists() or any(part.stat().st_mtime > ordinary.stat().st_mtime for part in (main, *layers)):
        raise PackagingError(f"{ordinary} is not up to date; run 'make build'")
    run([*zig(), "cc", "-target", f"x86_64-linux-gnu.{GLIBC}", "-s", "-pie", "-Wl,--gc-sections", "-Wl,-z,relro", "-Wl,-z,now",
         "-o", program, main, "-Wl,--start-group", *layers, "-Wl,--end-group",
         *(compile_source(package, file) for package, file in SOURCES.items()), later.with_suffix(".o"),
         system_archive("libz.a"), system_archive("libstdc++.a"), "-lunwind", "-lm", "-lpthread", "-ldl"],
        PLACE / "link.log")  # fmt: skip
    return program


def check_reports(program, ordinary):
    """Objects of two states of a build link without a complaint; what they make does not pass this."""
    trace = PLACE / "trace.gwt"
    for packed in sorted((ROOT / "tests/recorded").rglob("*.gwt.xz")):
        trace.write_bytes(lzma.decompress(packed.read_bytes()))
        said = [subprocess.run([each, "analyze", "--json", trace], capture_output=True) for each in (program, ordinary)]
        if said[0].returncode or said[0].stdout != said[1].stdout:
            raise PackagingError(f"{program} and {ordinary} do not say the same of {packed}")
    trace.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, nargs="?", default=ROOT / "build/release")
    build = parser.parse_args().build.resolve()
    try:
        program = link(build)
        check_reports(program, build / "bin/gpuwatch")
    except PackagingError as error:
        sys.exit(f"packages: {error}")
    print(f"packages: {program.relative_to(ROOT)}, {program.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
