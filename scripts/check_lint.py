#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the Python sources to ruff (ruff.toml) and the C++ sources to clang-tidy (.clang-tidy).

    check_lint.py build/release [FILE...]     the files named, else all

clang-tidy takes seconds for a file, so a file that it found clean is looked at again only when the file, something that
it includes or the list of checks has changed. Both are set up by scripts/setup.sh in one version for everybody, because
two versions never find the same.
"""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "build/venv/bin"
RULES = ROOT / ".clang-tidy"
# What users run. The tests and the simulated device would double the time.
LINTED = ("analyzer", "libinject", "hooks", "cuda/cupti", "cuda/nvml")
LANGUAGES = (".c", ".cpp")  # assembly has compile commands as well, and clang-tidy reads it as C


def ruff(paths):
    return subprocess.run([TOOLS / "ruff", "check", "--quiet", "--no-cache", *paths], cwd=ROOT).returncode == 0


def without_precompiled(command):
    """(command, the header that it wants precompiled or None): clang cannot read what GCC precompiled."""
    words = [word for word in command.split() if word != "-Winvalid-pch"]
    found = next((i for i, word in enumerate(words) if word.endswith("cmake_pch.hxx") and words[i - 1] == "-include"), None)
    return (" ".join(words), None) if found is None else (" ".join(words[: found - 1] + words[found + 1 :]), Path(words[found]))


def module_flags(header, place, depends):
    """What makes clang read each header of `header` once for all files, and not in each: 1.5 s instead of 2.7 for a file. A module
    for each of them, so that a file which does not include what it uses is still found."""
    read = depends.get(f"{header.relative_to(place.parent)}.gch", [])
    names = re.findall(r"#include [<\"](.+)[>\"]", header.read_text())
    found = [min((str(file) for file in read if str(file).endswith(f"/{name}")), key=len, default=None) for name in names]
    modules = "".join(f'module m{i} {{ header "{path}" export * }}\n' for i, path in enumerate(found) if path)
    module_map = place / f"{header.parent.stem}.modulemap"
    module_map.write_text(f"module precompiled [system] {{\n{modules}}}\n")
    return f"-fmodules -Xclang -fmodules-local-submodule-visibility -fmodules-cache-path={place / 'modules'} -fmodule-map-file={module_map}"


def cpp_entries(build, place, depends):
    """One compile command for each source of the folders in LINTED; several programs compile some of them."""
    entries, flags = {}, {None: ""}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = Path(entry["file"])
        if path.suffix not in LANGUAGES:
            continue
        if path.is_relative_to(ROOT) and str(path.relative_to(ROOT)).startswith(LINTED) and path not in entries:
            command, precompiled = without_precompiled(entry["command"])
            if precompiled not in flags:
                flags[precompiled] = module_flags(precompiled, place, depends)
            entries[path] = {**entry, "command": f"{command} {flags[precompiled]}"}
    return entries


def dependencies(build):
    """{object: files that it was compiled from}, as the compiler told ninja."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    depends, current = {}, None
    for line in listed.splitlines():
        if line.startswith("    "):
            depends[current].append(build / line.strip())
        elif line:
            current = line.partition(":")[0]
            depends[current] = []
    return depends


def output_of(entry):
    """The object that the command makes, as ninja names it: CMake 3.25 says it in the command only."""
    words = entry["command"].split()
    return words[words.index("-o") + 1]


def is_clean(stamp, path, depends):
    if not stamp.exists():
        return False
    checked = stamp.stat().st_mtime
    return all(file.exists() and file.stat().st_mtime < checked for file in (path, RULES, TOOLS / "clang-tidy", *depends))


def clang_tidy(build, chosen):
    place = build / "lint"
    place.mkdir(exist_ok=True)
    depends = dependencies(build)
    entries = cpp_entries(build, place, depends)
    if not entries:
        print(f"check_lint: {build} has no C++ sources of {', '.join(LINTED)}", file=sys.stderr)
        return False, 0
    (place / "compile_commands.json").write_text(json.dumps(list(entries.values())))
    stamps = {path: place / (str(path.relative_to(ROOT)).replace("/", "-") + ".clean") for path in entries}

    def check(path):
        if not chosen and is_clean(stamps[path], path, depends.get(output_of(entries[path]), [])):
            return True
        done = subprocess.run([TOOLS / "clang-tidy", "-p", place, "--quiet", path], cwd=ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            stamps[path].touch()
        else:
            print(done.stdout or f"check_lint: clang-tidy could not read {path}\n{done.stderr[-2000:]}", file=sys.stderr)
        return done.returncode == 0

    paths = [path for path in entries if not chosen or path in chosen]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return all(list(pool.map(check, paths))), len(paths)


def main():
    if len(sys.argv) < 2:
        print("check_lint: usage: check_lint.py BUILD [FILE...]", file=sys.stderr)
        return 2
    chosen = [Path(name).resolve() for name in sys.argv[2:]]
    for tool in ("ruff", "clang-tidy"):
        if not (TOOLS / tool).exists():
            print(f"check_lint: {TOOLS / tool} not found; run scripts/setup.sh", file=sys.stderr)
            return 1
    python = [path for path in chosen if path.suffix == ".py"] if chosen else ["scripts", "tests", "cuda", "python"]
    python_clean = not python or ruff(python)
    cpp_clean, checked = clang_tidy(Path(sys.argv[1]).resolve(), chosen)
    if not (python_clean and cpp_clean):
        print("check_lint: see above", file=sys.stderr)
        return 1
    print(f"check_lint: ruff, and clang-tidy on {checked} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
