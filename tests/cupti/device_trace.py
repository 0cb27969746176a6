# SPDX-License-Identifier: Apache-2.0
"""The device part of a trace, read by tests/python/raw_trace.py, and the simulated device's own log beside it."""

import bisect
import json
import sys
from collections import namedtuple
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import raw_trace  # noqa: E402

KINDS = {
    2: "kernel", 3: "h2d", 4: "d2h", 5: "d2d", 6: "other", 7: "memset", 8: "graph", 9: "sync", 10: "overhead",
}  # fmt: skip
LONG_SPAN, SCALED, SOURCE_PAGEABLE, DESTINATION_PAGEABLE = 4, 16, 32, 64

raw_trace.TABLES.update(
    {
        b"KERN": (
            "KernelInfo",
            "id:I name:s grid_x:I grid_y:I grid_z:I block_x:I block_y:I block_z:I shared_bytes:I registers:I",
        ),
        b"STRM": ("StreamInfo", "index:H process:I device:I context:I stream:I"),
        b"DEVC": (
            "DeviceInfo",
            "process:I device:I name:s major:i minor:i multiprocessors:i memory_bytes:Q driver_version:i "
            "runtime_version:i",
        ),
    }
)

Op = namedtuple("Op", "kind correlation start_ns end_ns stream name bytes source_pageable destination_pageable b")


class DeviceTrace:
    """`ops`: device records, times in CLOCK_MONOTONIC ns; `calls`: host records, as raw_trace has them."""

    def __init__(self, directory):
        files = sorted(Path(directory).glob("*.gwt"))
        assert len(files) == 1, f"{len(files)} trace files"
        reader = raw_trace.FileReader(files[0])
        trace = raw_trace.Trace()
        reader.add_to(trace)
        self.tables = trace.all_tables
        self.calls = trace.all_calls
        self.state = trace.state
        self.source = trace.source
        self.lost = trace.losses()
        self.kernels = {row["id"]: row for row in self.tables["KernelInfo"]}
        self.streams = {row["index"]: row for row in self.tables["StreamInfo"]}
        self.offsets = sorted(
            (row["device_ns"], row["monotonic_ns"]) for row in self.tables["ClockSample"] if row["device_ns"]
        )
        self.ops = [self.device_op(*slot) for _, _, slot, *_ in reader.slots if slot[0] in KINDS]

    def monotonic(self, device_ns):
        """Through the clock samples on both sides."""
        at = bisect.bisect(self.offsets, (device_ns, 0))
        low = self.offsets[max(at - 1, 0)]
        high = self.offsets[min(at, len(self.offsets) - 1)]
        if low == high:
            return device_ns + low[1] - low[0]
        share = (device_ns - low[0]) / (high[0] - low[0])
        return low[1] + share * (high[1] - low[1])

    def device_op(self, kind, flags, stream, span, start, correlation, b):
        span = span * 1024 if flags & LONG_SPAN else span
        begin = self.monotonic(start)
        kind = KINDS[kind]
        return Op(
            kind, correlation, begin, begin + span, self.streams[stream]["stream"] if stream else None,
            self.kernels[b]["name"] if kind == "kernel" else None,
            b * 1024 if flags & SCALED else b, bool(flags & SOURCE_PAGEABLE), bool(flags & DESTINATION_PAGEABLE), b,
        )  # fmt: skip

    def of_kind(self, *kinds):
        return sorted((op for op in self.ops if op.kind in kinds), key=lambda op: op.correlation)


class Truth:
    """What the simulated device did: `ops` and `host` calls as it logged them."""

    def __init__(self, path):
        rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
        self.header = next(row for row in rows if row["type"] == "header")
        self.ops = sorted((row for row in rows if row["type"] == "op"), key=lambda row: row["corr"])
        self.host = [row for row in rows if row["type"] == "host"]

    def of_kind(self, *kinds):
        return [row for row in self.ops if row["kind"] in kinds]
