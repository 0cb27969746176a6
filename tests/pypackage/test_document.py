# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python.md print what the page says."""

import doctest
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.beside_others
RUN = "gpuwatch-torch_jobs-20261126-130116-1347"


def test_the_examples_are_real(recording, gpuwatch, tmp_path, monkeypatch):
    shutil.copytree(recording("exposed-copy").trace, tmp_path / RUN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(gpuwatch.parent))
    result = doctest.testfile(str(ROOT / "docs/python.md"), module_relative=False, encoding="utf-8")
    assert result.attempted >= 7 and result.failed == 0
