# SPDX-License-Identifier: Apache-2.0
"""What trainings use of PyTorch runs on the simulated device, and nothing in it asks for what is only a stub."""

import re

import pytest
from torch_case import PROGRAMS

pytestmark = pytest.mark.beside_others


def expect(run, checks):
    assert run.stdout.splitlines() == [f"ok {name}" for name in checks], run.stdout + run.stderr
    assert run.returncode == 0
    assert "unimplemented" not in run.stderr, run.stderr


def test_features(on_device):
    checks = re.findall(r"^@check\ndef (\w+)", (PROGRAMS / "features.py").read_text(), flags=re.M)
    expect(on_device("features.py"), checks)


def test_where_pytorch_prefers_other_kernels(on_device):
    """Compute capability 9.0: attention in half precision goes to cuDNN."""
    checks = ["attention_by_default", "convolution"]
    expect(on_device("features.py", *checks, device="h100"), checks)
