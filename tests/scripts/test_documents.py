# SPDX-License-Identifier: Apache-2.0
"""Files and commits that the pages for contributors name exist."""

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.beside_others

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["CONTRIBUTING.md", "README.md", "docs/architecture.md"]
PATH = re.compile(r"`((?:analyzer|cuda|docs|hooks|libinject|scripts|tests)/[\w./-]*[\w/])`")
LINK = re.compile(r"\]\(([^)#:]+)\)")


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page):
    text = (ROOT / page).read_text()
    named = [ROOT / path for path in PATH.findall(text)] + [(ROOT / page).parent / link for link in LINK.findall(text)]
    assert named
    assert [str(path) for path in named if not path.exists()] == []


def test_named_commits_exist():
    if subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True).stdout.strip() != "false":
        pytest.skip("no full history here")
    commits = re.findall(r"`git show ([0-9a-f]{7,40})`", (ROOT / "CONTRIBUTING.md").read_text())
    assert commits
    for commit in commits:
        assert subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT).returncode == 0, commit


def test_every_category_is_explained():
    table = (ROOT / "analyzer/attribute/category.def").read_text()
    names = re.findall(r'^GW_CATEGORY\(\w+, "([^"]+)"', table, re.MULTILINE)
    text = (ROOT / "docs/attribution.md").read_text()
    assert names
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_device_profile_is_listed():
    profiles = [path for path in (ROOT / "cuda/sim/devices").glob("*.conf") if "device_name" in path.read_text()]
    text = (ROOT / "docs/simulated-device.md").read_text()
    assert profiles
    assert [path.name for path in profiles if f"`{path.name}`" not in text] == []
