#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a release may be made of this checkout, builds the packages into dist/, and says how to tag and publish it.

Refuses where files are changed or not added, where the version has a tag already, and where CHANGELOG.md has no section
with a date for it. Publishes nothing.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts/packages"))
from pack_wheel import version  # noqa: E402


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def obstacles(number, changelog, status, tags):
    """Why no release can be made; empty if it can."""
    found = []
    if status:
        found.append(f"these files are changed or not added; commit them first:\n{status}")
    if f"v{number}" in tags:
        found.append(f"the tag v{number} exists; raise the version of project() in CMakeLists.txt")
    section = re.search(rf"^## {re.escape(number)} \((.*)\)$", changelog, re.MULTILINE)
    if not section:
        found.append(f"CHANGELOG.md has no section '## {number} (DATE)'")
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", section[1]):
        found.append(f"CHANGELOG.md says '{section[1]}' of {number}; write the date of the release there, as 2026-01-31")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="say whether a release can be made, build nothing")
    arguments = parser.parse_args()
    number = version()
    found = obstacles(number, (ROOT / "CHANGELOG.md").read_text(), git("status", "--porcelain"), git("tag").splitlines())
    if found:
        sys.exit("\n".join(f"release: {obstacle}" for obstacle in found))
    if arguments.check:
        print(f"release: {number} can be made")
        return
    subprocess.run([ROOT / "scripts/build_wheel.sh", "wheel", "tarball"], check=True)
    print(f"release: {number} is in dist/. Test it, then: git tag -a v{number} && twine upload dist/*.whl")


if __name__ == "__main__":
    main()
