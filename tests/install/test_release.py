# SPDX-License-Identifier: Apache-2.0
"""scripts/release.py refuses what must not be released, and every version has its section in CHANGELOG.md."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))
from release import obstacles, version  # noqa: E402

pytestmark = pytest.mark.beside_others
GOOD = "# Changes\n\n## 1.2.0 (2026-11-27)\n"


@pytest.mark.parametrize(
    ("changelog", "status", "tags", "words"),
    [
        (GOOD, "", ["v1.1.0"], None),
        (GOOD, " M README.md", [], "commit them first"),
        (GOOD, "", ["v1.2.0"], "the tag v1.2.0 exists"),
        (GOOD.replace("1.2.0", "1.1.0"), "", [], "no section '## 1.2.0 (DATE)'"),
        (GOOD.replace("2026-11-27", "not released"), "", [], "write the date"),
        (GOOD.replace("1.2.0", "1x2.0"), "", [], "no section"),
    ],
)
def test_obstacles(changelog, status, tags, words):
    found = obstacles("1.2.0", changelog, status, tags)
    assert len(found) == (words is not None)
    assert not words or words in found[0]


def test_this_version_has_a_section():
    assert not [words for words in obstacles(version(), (ROOT / "CHANGELOG.md").read_text(), "", []) if "no section" in words]


def test_every_program_states_the_same_version(gpuwatch):
    assert subprocess.run([gpuwatch, "--version"], capture_output=True, text=True).stdout == f"gpuwatch {version()}\n"
