# SPDX-License-Identifier: Apache-2.0
"""CUPTI of other releases: other record layouts, functions that are missing, names that live for a callback only."""

import pytest
from test_session import assert_same_timeline, guest, on_device  # noqa: F401

# 11.8, 12.6, 13.0 Update 1, 13.1: each with another length of kernel records.
RELEASES = [18, 24, 130001, 130100]


@pytest.fixture(params=RELEASES)
def release(request, tmp_path):
    device = tmp_path / "device.conf"
    device.write_text(f"cupti_api_version {request.param}\ncupti_names_expire 1\n")
    return request.param, {"GWSIM_CONFIG": device}


@pytest.mark.parametrize("workload", ["pageable_copy", "two_streams", "trainer"])
def test_device_timeline_equals_the_log(on_device, workloads, release, workload):  # noqa: F811
    version, env = release
    _, trace, truth = on_device([workloads / workload, "--steps", 8], env=env)
    assert trace.state("cupti") == "On"
    assert trace.lost == {}
    assert {row["value"] for row in trace.tables["Fact"] if row["key"] == "cupti"} == {str(version)}
    assert_same_timeline(trace, truth, "kernel")
    assert_same_timeline(trace, truth, "memset")
    assert_same_timeline(trace, truth, "h2d", "d2h", "d2d")
    named = {op.correlation: op.name for op in trace.of_kind("kernel")}
    assert named == {op["corr"]: op["name"] for op in truth.of_kind("kernel")}
    for op, logged in zip(trace.of_kind("h2d"), truth.of_kind("copy.h2d"), strict=True):
        assert (op.bytes, op.source_pageable) == (logged["bytes"], logged["src"] == "pageable")


def test_calls_around_the_symbols(on_device, guest, release):  # noqa: F811
    _, trace, _ = on_device([guest, "around"], env=release[1])
    assert trace.state("cupti") == "On"
    launched = {call.a for call in trace.calls if call.name == "cuLaunchKernel"}
    assert len(launched) == 3
    assert launched == {op.correlation for op in trace.of_kind("kernel")}
