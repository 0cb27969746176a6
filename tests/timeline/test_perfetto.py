# SPDX-License-Identifier: Apache-2.0
"""`gpuwatch analyze --perfetto`: what a reader of Perfetto's published format finds in the file, against the report of the run."""

import collections
import json
import subprocess
import sys
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    Trace,
    TracePacket,
    TrackEvent,
)
from recorded_trace import unpack

TESTS = Path(__file__).resolve().parents[1]
LOADER = TESTS / "groundtruth/programs/timed_loader.py"


class Timeline:
    """Slices of each track, rebuilt as Perfetto does: sorted by time, closed in the order of a stack."""

    def __init__(self, path):
        trace = Trace()
        trace.ParseFromString(path.read_bytes())
        assert (
            trace.packet[0].sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        )
        self.tracks, self.slices, self.flows = (
            {},
            collections.defaultdict(list),
            collections.defaultdict(list),
        )
        names, events = {}, []
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            for name in packet.interned_data.event_names:
                names[name.iid] = name.name
            if packet.HasField("track_event"):
                events.append((packet.timestamp, packet.track_event))
        open_slices = collections.defaultdict(list)
        for time, event in sorted(
            events, key=lambda entry: entry[0]
        ):  # stable, as Perfetto's sorter
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                open_slices[event.track_uuid].append((names[event.name_iid], time))
                for flow in event.flow_ids:
                    self.flows[flow].append((time, event.track_uuid))
            else:
                assert event.type == TrackEvent.TYPE_SLICE_END
                name, begin = open_slices[event.track_uuid].pop()
                self.slices[event.track_uuid].append((name, begin, time))
        assert not any(open_slices.values()), "a slice has no end"
        assert set(self.slices) <= set(self.tracks)

    def named(self, prefix):
        """The tracks whose name begins so."""
        return [
            uuid
            for uuid, track in self.tracks.items()
            if (
                track.name or track.thread.thread_name or track.process.process_name
            ).startswith(prefix)
        ]

    def durations(self, prefix):
        total = collections.Counter()
        for uuid in self.named(prefix):
            for name, begin, end in self.slices[uuid]:
                total[name] += end - begin
        return total


def exported(gpuwatch, folder, tmp_path):
    file = tmp_path / "timeline.perfetto-trace"
    file.write_text("an older one")  # that anybody may read
    done = subprocess.run(
        [gpuwatch, "analyze", folder, "--json", "--perfetto", file],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    return json.loads(done.stdout), Timeline(file)


def attributed(report):
    return [row["ns"] for row in report["ranks"][0]["attribution"]]


@pytest.fixture(params=["speech-buffers", "jax-siren", "video-pageable"])
def recorded(request, gpuwatch, tmp_path):
    """A recording from a GPU: its report, its timeline."""
    return exported(gpuwatch, unpack(request.param, tmp_path / "run"), tmp_path)


def test_the_causes_of_a_step_are_those_of_the_report(recorded):
    report, timeline = recorded
    causes = timeline.durations("where a step goes")
    assert sum(causes.values()) == report["ranks"][0]["wall_ns"]
    assert sorted(causes.values()) == sorted(attributed(report))
    assert len(timeline.durations("steps")) == report["ranks"][0]["steps"]["recorded"]


def test_an_arrow_leads_from_each_launch_to_its_operation(recorded):
    report, timeline = recorded
    streams, threads = (
        set(timeline.named("GPU ")),
        {uuid for uuid, track in timeline.tracks.items() if track.HasField("thread")},
    )
    assert streams and threads
    launches = [
        ends
        for ends in timeline.flows.values()
        if any(uuid in streams for _, uuid in ends)
    ]
    assert launches
    for ends in launches:
        assert len(ends) == 2
        (call_at, call_on), (op_at, op_on) = sorted(ends)
        assert call_on in threads and op_on in streams and call_at <= op_at


def test_slices_of_a_stream_follow_each_other(recorded):
    _, timeline = recorded
    for uuid in timeline.named("GPU "):
        slices = sorted(timeline.slices[uuid], key=lambda entry: entry[1:])
        assert all(a[2] <= b[1] for a, b in zip(slices, slices[1:]))


def test_batches_lie_on_the_lane_of_their_worker(inject, gpuwatch, run_dir, tmp_path):
    options = ["--batches", 30, "--workers", 2, "--prefetch", 2, "--think-ms", 5]
    done = inject([sys.executable, LOADER, *options])
    assert done.returncode == 0, done.stderr
    report, timeline = exported(gpuwatch, run_dir, tmp_path)
    lanes = timeline.named("DataLoader 0 worker ")
    assert len(lanes) == 2
    batches = [name for uuid in lanes for name, _, _ in timeline.slices[uuid]]
    assert (
        len(batches) == len(set(batches)) >= report["ranks"][0]["loaders"][0]["batches"]
    )
    (training,) = timeline.named("training thread")
    taken = [
        ends
        for ends in timeline.flows.values()
        if {uuid for _, uuid in ends} & set(lanes)
    ]
    assert len(taken) == report["ranks"][0]["loaders"][0]["batches"]
    assert all(training in {uuid for _, uuid in ends} for ends in taken)


def test_what_cannot_be_written_is_one_sentence(gpuwatch, tmp_path):
    unpack("video-pageable", tmp_path / "run")
    words = [
        gpuwatch,
        "analyze",
        tmp_path / "run",
        "--perfetto",
        tmp_path / "none/file",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (
        done.returncode == 2
        and done.stderr.count("\n") == 1
        and "No such file" in done.stderr
    )
