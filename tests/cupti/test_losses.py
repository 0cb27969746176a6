# SPDX-License-Identifier: Apache-2.0
"""What is lost is counted exactly; a CUPTI that refuses, is missing or gives up costs device records, nothing else."""

import os

import pytest
from device_trace import DeviceTrace
from test_session import guest, on_device  # noqa: F401

pytestmark = pytest.mark.beside_others

NO_BUFFER = "device records that CUPTI had no buffer for"


@pytest.mark.parametrize("release", [26, 130001])
def test_records_without_room_are_counted(on_device, guest, tmp_path, release):  # noqa: F811
    config = tmp_path / "device.conf"
    config.write_text(f"cupti_api_version {release}\nqueue_depth 300000\nlaunch_cost_us 0\nd2d_gbs 0.001\ncopy_latency_us 0\n")
    _, trace, truth = on_device([guest, "flood"], env={"GWSIM_CONFIG": config})
    did = len(truth.of_kind("memset"))
    seen = len(trace.of_kind("memset"))
    assert did == 230_000
    if release < 27:  # those must not be refused a buffer; the system's memory is used
        assert (seen, trace.lost) == (did, {})
    else:
        assert seen < did
        assert seen + trace.lost[NO_BUFFER] + (0 if trace.of_kind("sync") else 1) >= did
        assert seen + trace.lost[NO_BUFFER] <= did + 1  # the synchronisation's record may be among the lost


def test_names_outlast_shapes(on_device, guest):  # noqa: F811
    """One kernel with ever new grids takes half of the room for shapes; every launch keeps its name."""
    done, trace, truth = on_device([guest, "shapes"])
    launches = trace.of_kind("kernel")
    assert [op.name for op in launches] == [op["name"] for op in truth.of_kind("kernel")]
    assert len(launches) == 14_051 and trace.lost == {}
    grids = [*range(1, 14_001), 7, *range(20_000, 20_050)]
    recorded = [trace.kernels[op.b]["grid_x"] for op in launches]
    assert all(seen in (grid, 0) for seen, grid in zip(recorded, grids, strict=True))
    assert recorded.count(0) == 14_051 - 6144 - 1 and recorded[14_000] == 7
    report = done.report()
    assert report["trace"]["lost_events"] == 0
    assert [s for s in report["limits"] if s.startswith("7906 of 14051 kernel launches are recorded by name alone")]


def test_streams_past_the_bound_keep_their_device(on_device, guest, tmp_path):  # noqa: F811
    config = tmp_path / "device.conf"
    config.write_text("devices 2\n")
    done, trace, _ = on_device([guest, "streams"], env={"GWSIM_CONFIG": config})
    fills = trace.of_kind("memset")
    (others,) = [row for row in trace.tables["StreamInfo"] if row["stream"] == 0xFFFFFFFF]
    assert len(fills) == 3200 and others["device"] == 1
    assert [op.stream == 0xFFFFFFFF for op in fills].count(True) == 128
    sentence = "GPU operations are known by their device alone: more than 3072 streams"
    assert trace.lost == {f"incomplete: {sentence}": 128}
    report = done.report()
    assert report["trace"]["lost_events"] == 0 and f"128 records are incomplete: {sentence}." in report["limits"]


@pytest.fixture
def outcome(inject, workloads, tmp_path):
    """outcome(device) -> (report, what the program printed about its own steps)"""

    def run(device, steps=200):
        config = tmp_path / "device.conf"
        config.write_text(device)
        phases = tmp_path / "phases"
        done = inject(
            [workloads / "sync_each_step", "--steps", steps],
            env={"GWSIM_CONFIG": config, "GWSIM_PHASES": phases},
            sim=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert phases.stat().st_size > 0
        return done.report(), done.stdout

    return run


def category(report, name):
    (rank,) = report["ranks"]
    return next((row["share"] for row in rank["attribution"] if row["category"] == name), 0)


def test_a_cupti_that_refuses(outcome):
    report, printed = outcome("cupti_fail_after 0\ncupti_fail_code 35\n")
    assert report["coverage"]["sources"]["cupti"] == "refused by CUPTI (error 35): no device timeline"
    assert category(report, "device.unobserved") > 0
    assert category(report, "compute") == 0
    assert any("GPU busy and idle are not known" in sentence for sentence in report["limits"])
    assert printed == outcome("")[1]


@pytest.mark.parametrize("calls", [1, 5, 40])
def test_a_cupti_that_fails_half_way_into_its_set_up(outcome, calls):
    report, printed = outcome(f"cupti_fail_after {calls}\n")
    assert report["coverage"]["sources"]["cupti"] != "on"
    assert category(report, "compute") == 0
    assert printed == outcome("")[1]


def test_a_cupti_that_fails_in_mid_run(outcome):
    report, _ = outcome("cupti_fail_at_ms 900\n", steps=800)
    assert "failed while recording (CUPTI error 999)" in report["coverage"]["sources"]["cupti"]
    assert category(report, "device.unobserved") > 0
    assert any("failed while recording" in sentence for sentence in report["limits"])


def test_the_real_cupti_without_a_driver(inject, guest, build, sim_lib, run_dir, tmp_path):  # noqa: F811
    real = next(
        path
        for path in (build.parent / "cuda/lib64/libcupti.so.13", build.parent.parent / "build/cuda/lib64/libcupti.so.13")
        if path.exists()
    )
    libraries = tmp_path / "lib"
    libraries.mkdir()
    for library in os.listdir(sim_lib):
        if library.startswith(("libcudart", "libgwsim_core")):  # no driver
            (libraries / library).symlink_to(sim_lib / library)
    (libraries / "libcupti.so.13").symlink_to(real.resolve())
    done = inject([guest, "use"], env={"LD_LIBRARY_PATH": f"{libraries}:{real.resolve().parent}"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = DeviceTrace(run_dir)
    assert trace.state("cupti") == "Absent"
    assert trace.source("cupti")["text"].startswith("no GPU found")
