# SPDX-License-Identifier: Apache-2.0
"""A child that lowers its limits, closes descriptors or becomes another user: its parent is recorded to the end."""

import json
import os

import pytest

pytestmark = pytest.mark.beside_others


def copies_by_pid(trace):
    pids = [call.pid for call in trace.all_calls if call.name == "cudaMemcpy"]
    return {pid: pids.count(pid) for pid in pids}


def parent_and_child(trace):
    parent, child = sorted(trace.tables("Process"), key=lambda row: row["ordinal"])
    return parent["pid"], child["pid"]


def limits(run, directory):
    run.out = directory
    return json.loads(run.analyze("--json").stdout)["limits"]


TROUBLES = ["daemon", "nofile", "fsize", pytest.param("user", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user"))]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_stops_itself_at_most(inject, guests, tmp_path, trouble):
    import raw_trace

    run = inject([guests / "processes", "troubled-child", trouble], env={"GPUWATCH_OUT": "run"}, cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"{trouble}: exit 3\n", "")
    trace = raw_trace.read_run(tmp_path / "run")
    parent, child = parent_and_child(trace)
    assert copies_by_pid(trace)[parent] == 2001
    naps = [call for call in trace.all_calls if call.name == "usleep" and call.pid == child]
    said = [limit for limit in limits(run, tmp_path / "run") if "child process" in limit]
    if trouble == "daemon":
        assert len(naps) == 1200
        assert not said
    else:
        assert len(said) == 1


@pytest.mark.parametrize("kernel", ["", "refuse_wipe"])
def test_two_at_once(recorded, guests, kernel):
    """Also where the kernel cannot tell a child from its parent by MADV_WIPEONFORK."""
    trace = recorded([*([guests / kernel] if kernel else []), guests / "processes", "two-at-once"])
    parent, child = parent_and_child(trace)
    assert copies_by_pid(trace) == {parent: 2001, child: 2000}


def test_says_which_children_it_cannot_tell(recorded, guests):
    """No fork handler runs for a bare system call."""
    trace = recorded([guests / "refuse_wipe", guests / "processes", "two-at-once"])
    assert trace.state("children") == "Partial"


def test_says_nothing_where_it_can_tell_all(recorded, guests):
    trace = recorded([guests / "processes", "two-at-once"])
    assert "children" not in {row["name"] for row in trace.tables("Source")}
