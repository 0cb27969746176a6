# SPDX-License-Identifier: Apache-2.0
"""scripts/check_layers.py rejects what would make two parts of the project depend on each other."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_layers  # noqa: E402

pytestmark = pytest.mark.beside_others


def complaint(path, include):
    text = f'#include "{include}"\n'
    return check_layers.complaint(path, check_layers.layer_of(path), check_layers.INCLUDE.search(text))


def test_the_table_has_no_cycle():
    assert check_layers.find_cycle() == []


@pytest.mark.parametrize(
    "layer, other",
    [("hooks/libc", "hooks/python/pytorch"), ("hooks/core", "hooks/nvtx"), ("libinject/base", "hooks/cudart")],
)
def test_a_cycle_in_the_table(monkeypatch, layer, other):
    allowed = [*check_layers.LAYERS[layer], other]
    monkeypatch.setitem(check_layers.LAYERS, layer, allowed)
    cycle = check_layers.find_cycle()
    assert cycle and cycle[0] == cycle[-1] and {layer, other} & set(cycle)


@pytest.mark.parametrize(
    "path, include",
    [
        ("hooks/libc/open.cpp", "hooks/python/interpreter/finder.h"),
        ("hooks/libc/open.cpp", "../python/interpreter/finder.h"),
        ("hooks/python/interpreter/finder.cpp", "hooks/python/pytorch/loader.h"),
        ("hooks/python/frameworks/versions.cpp", "hooks/python/pytorch/loader.h"),
        ("hooks/cudart/cudart.cpp", "hooks/libc/real.h"),
        ("hooks/libc/libc.def", "hooks/nccl/nccl.def"),
        ("libinject/runtime/config.cpp", "hooks/core/evidence.h"),
        ("analyzer/io/reader.cpp", "libinject/record/recorder.h"),
    ],
)
def test_an_include_upwards(path, include):
    assert complaint(path, include)


@pytest.mark.parametrize(
    "path, include",
    [
        ("hooks/entry.cpp", "hooks/libc/libc.h"),
        ("hooks/core/all_tables.def", "hooks/libc/libc.def"),
        ("hooks/python/pytorch/loader.cpp", "hooks/python/interpreter/wrap.h"),
        ("analyzer/advise/loader_words.cpp", "libinject/trace/frameworks.def"),
    ],
)
def test_an_include_downwards(path, include):
    assert complaint(path, include) is None


@pytest.mark.parametrize("path", ["hooks/new_source/hooks.cpp", "hooks/python/new_framework/hooks.cpp"])
def test_a_new_folder_of_hooks_needs_a_row(path):
    assert check_layers.layer_of(path) is None
