# SPDX-License-Identifier: Apache-2.0
"""What trainings use of PyTorch runs on the simulated device, and nothing in it asks for what is only a stub."""

import re

from torch_case import PROGRAMS


def test_features(on_device):
    run = on_device("features.py")
    checks = re.findall(r"^@check\ndef (\w+)", (PROGRAMS / "features.py").read_text(), flags=re.M)
    assert run.stdout.splitlines() == [f"ok {name}" for name in checks], run.stdout + run.stderr
    assert run.returncode == 0
    assert "unimplemented" not in run.stderr, run.stderr
