# SPDX-License-Identifier: Apache-2.0
"""pin_memory and non_blocking, applied through the injection: only the loader's own pinned batches are copied without blocking."""

import json

import pytest

ASKED = {"GPUWATCH_APPLY": "pin_memory=True,non_blocking=True"}
BY_ITSELF = {"asked"}
WITH_US = {"to", "cuda", "cast", "asked"}


@pytest.fixture
def copies(on_device, libgpuwatch, tmp_path):
    """copies(words, env) -> the kinds of copy that were under way when they returned."""

    def run(*words, env=None):
        injected = {"LD_PRELOAD": str(libgpuwatch), "GPUWATCH_OUT": str(tmp_path / "traces"), **env} if env else {}
        done = on_device("copies.py", *words, device="slow_link", env=injected)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])
        assert all(len(set(kind)) == 1 for kind in seen.values()), seen
        return {kind for kind, under_way in seen.items() if under_way[0]}

    return run


def test_a_pinned_batch_is_copied_as_the_program_says(copies):
    assert copies("--pin") == BY_ITSELF


def test_batches_are_pinned_and_their_copies_do_not_block(copies):
    assert copies(env=ASKED) == WITH_US
    assert copies("--pin", env={"GPUWATCH_APPLY": "non_blocking=True"}) == WITH_US


def test_without_being_asked_copies_block(copies):
    assert copies("--pin", env={"GPUWATCH_APPLY": "num_workers=0"}) == BY_ITSELF
