# SPDX-License-Identifier: Apache-2.0
"""Reads trace files without the analyzer: walks the page grid and decodes what lies there with struct alone.

Written from libinject/trace/trace.fbs, so that a mistake in the recorder and the same mistake in the analyzer cannot
hide each other. Slow, complete and strict: anything that does not fit the grammar raises.

    trace = read_run(directory)
    trace.calls("LoaderNext")  ->  [Call(process=0, thread=4711, begin_ns=..., end_ns=..., a=3, b=0, failed=False, ...)]
    trace.tables("LoaderInfo") ->  [{"id": 3, "class_name": "DataLoader", "num_workers": 2, ...}]
"""

import bisect
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

PAGE = 4096
LONG_SPAN, FAILED = 4, 8

# Field names and types in the order of the schema; s: id of a text.
TABLES = {
    b"TEXT": ("Text", "id:I text:T"),
    b"OPER": ("Operation", "op:H op_class:B name:s"),
    b"PROC": (
        "Process",
        "ordinal:I pid:I parent_pid:I parent_ordinal:I tick_source:B start_ticks:Q start_realtime_ns:Q host:s script:s "
        "executable:s user:s run_id:s rank:i local_rank:i world_size:i cpu_count:I",
    ),
    b"THRD": ("ThreadName", "process:I thread:I name:s"),
    b"CLOK": ("ClockSample", "process:I ticks:Q monotonic_ns:Q realtime_ns:Q device_ns:Q bracket_ns:I"),
    b"LOAD": (
        "LoaderInfo",
        "id:I process:I class_name:s dataset:s location:s start_method:s sampler:s num_workers:i batch_size:i "
        "prefetch_factor:i pin_memory:b persistent_workers:b in_order:b drop_last:b batches:i "
        "framework:s code:s instance:I stages:s sharding:I",
    ),
    b"WORK": ("WorkerInfo", "loader:I worker:I pid:I thread:I"),
    b"LOSS": ("Loss", "process:I thread:I reason:s count:Q"),
    b"SRCE": ("Source", "process:I name:s text:s ticks:Q state:B holder:s"),
    b"FACT": ("Fact", "process:I key:s value:s"),
    b"SAMP": (
        "Sample",
        "process:I ticks:Q cpu_ns:Q children_cpu_ns:Q run_delay_ns:Q throttled_ns:Q cpu_total_ns:Q cpu_idle_ns:Q "
        "cpu_steal_ns:Q major_faults:Q rss_bytes:Q children_run_delay_ns:Q throttled_count:Q psi_cpu_ns:Q psi_memory_ns:Q "
        "psi_io_ns:Q memory_available_bytes:Q swap_in_bytes:Q shm_used_bytes:Q disk_read_bytes:Q disk_busy_ns:Q "
        "children_threads:I cpu:I cpu_mhz:I other_children_cpu_ns:Q "
        "minor_faults:Q system_ns:Q children_minor_faults:Q children_system_ns:Q ended_children_cpu_ns:Q",
    ),
    b"MONT": ("Mount", "process:I device:Q point:s type:s source:s is_remote:b"),
    b"DSMP": (
        "DeviceSample",
        "process:I ticks:Q device:I sm_clock_mhz:I sm_clock_max_mhz:I throttle_reasons:Q power_mw:I power_limit_mw:I "
        "temperature_c:I pcie_generation:I pcie_generation_max:I pcie_width:I pcie_width_max:I memory_used_bytes:Q "
        "memory_bytes:Q utilization_percent:I other_processes:I other_memory_bytes:Q numa_node:i "
        "power_limit_default_mw:I other_utilization_percent:I is_other_utilization_known:B is_unused:B",
    ),
    b"STGE": (
        "PipelineStage",
        "process:I ticks:Q loader:I stage:I feeds:I name:s elements:Q bytes_produced:Q bytes_consumed:Q processing_ns:Q",
    ),
    b"ENDP": ("ProcessEnd", "process:I reason:B code:i ticks:Q"),
}
OP_CLASSES = {
    30: "Wait", 31: "Poll", 32: "Sleep", 33: "Read", 34: "Write", 35: "Open", 36: "Stat", 37: "Flush", 38: "Receive", 39: "Send",
    50: "LoaderNext", 51: "LoaderStart", 52: "IndexSent", 53: "BatchReceived", 54: "Fetch", 55: "Collate",
    56: "PinBatch", 57: "WorkerStart", 58: "OptimizerStep", 59: "Range", 60: "GarbageCollection", 61: "Checkpoint",
    63: "ProcessRange", 64: "Mark", 65: "BatchShape",
}  # fmt: skip
SOURCE_STATES = (
    "Unknown", "On", "Partial", "Off", "NotPreloaded", "Absent", "Unavailable", "Held", "Yielded", "Failed"
)  # fmt: skip
RANGES = {"Range", "ProcessRange", "Mark"}  # RangeDetail; `a` is the domain's name and `b` the range's, as texts
WITH_MOUNT = {"Read", "Write", "Open", "Receive", "Send"}  # IoDetail
WITHOUT_STREAM = {"Fetch", "LoaderNext", "OptimizerStep", "BatchShape", *WITH_MOUNT}  # CpuDetail, IoDetail, ShapeDetail


@dataclass
class Call:
    process: int
    pid: int
    thread: int
    op_class: str
    name: str
    begin_ns: float
    end_ns: float
    a: int
    b: int
    failed: bool
    detail: tuple = ()  # (cpu_ns, run_delay_ns, major_faults, thread_count), (bytes, caller, mount, f_type), (elements, padded, longest, samples), or (bytes, caller, stream, ...)
    io_counts: tuple = ()  # of a Fetch: (bytes_read, disk_kib, io_us, opens, reads)


@dataclass
class Stack:
    """Where the job's code was, innermost frame first. With sampled_pid a sample, else of a stall of this thread."""

    process: int
    pid: int
    thread: int
    name: str  # of the operation
    begin_ns: float
    frames: list
    weight_ns: float = 0
    sampled_pid: int = 0

    @property
    def is_of_worker(self):
        return self.sampled_pid not in (0, self.pid)  # 0: another thread of the training process

    @property
    def is_of_training(self):
        return self.sampled_pid == self.pid


@dataclass
class Trace:
    all_calls: list = field(default_factory=list)
    stacks: list = field(default_factory=list)
    all_tables: dict = field(default_factory=lambda: defaultdict(list))

    def calls(self, op_class):
        return sorted((c for c in self.all_calls if c.op_class == op_class), key=lambda c: c.begin_ns)

    def tables(self, name):
        return self.all_tables[name]

    def losses(self):
        """By reason: they are written bit by bit while the job runs."""
        counts = defaultdict(int)
        for row in self.tables("Loss"):
            counts[row["reason"]] += row["count"]
        return dict(counts)

    def facts(self):
        return {row["key"]: row["value"] for row in self.tables("Fact")}

    def source(self, name):
        """What the source said about itself last."""
        return [row for row in self.tables("Source") if row["name"] == name][-1]

    def state(self, source):
        return SOURCE_STATES[self.source(source)["state"]]


class Table:
    """A FlatBuffers table inside a size-prefixed buffer that begins at `base`."""

    def __init__(self, data, base):
        self.data = data
        self.at = base + 4 + struct.unpack_from("<I", data, base + 4)[0]
        self.vtable = self.at - struct.unpack_from("<i", data, self.at)[0]

    def place(self, index):
        slot = 4 + 2 * index
        if slot >= struct.unpack_from("<H", self.data, self.vtable)[0]:
            return None
        offset = struct.unpack_from("<H", self.data, self.vtable + slot)[0]
        return self.at + offset if offset else None

    def scalar(self, index, kind):
        place = self.place(index)
        return struct.unpack_from("<" + kind, self.data, place)[0] if place else 0

    def vector(self, index):
        """(place of the first element, element count)"""
        place = self.place(index)
        if place is None:
            return 0, 0
        place += struct.unpack_from("<I", self.data, place)[0]
        return place + 4, struct.unpack_from("<I", self.data, place)[0]


def read_table(data, base, columns):
    table, row = Table(data, base), {}
    for index, column in enumerate(columns.split()):
        name, kind = column.split(":")
        if kind == "T":
            at, size = table.vector(index)
            row[name] = data[at : at + size].decode("utf-8", "replace")
        else:
            row[name] = table.scalar(index, "I" if kind == "s" else kind)
    return row


def walk_frames(data):
    """(identifier, place) of each frame after the header."""
    page = 1
    while (page + 1) * PAGE <= len(data):
        size = struct.unpack_from("<I", data, page * PAGE)[0]
        if size:
            yield data[page * PAGE + 8 : page * PAGE + 12], page * PAGE
        page += max(1, -(-(size + 4) // PAGE)) if size else 1


class FileReader:
    def __init__(self, path):
        self.data = Path(path).read_bytes()
        assert self.data[8:12] == b"GWTH", f"{path} is no trace"
        self.rows = defaultdict(list)
        self.slots = []  # (process, thread, slot, place of its details, their number)
        for identifier, base in walk_frames(self.data):
            if identifier == b"GWTT":
                self.read_tables(base)
            elif identifier == b"GWTC":
                self.read_slots(base)
            else:
                raise ValueError(f"{path}: frame {identifier} at {base}")
        self.texts = {row["id"]: row["text"] for row in self.rows["Text"]}
        for name, columns in TABLES.values():
            for column in columns.split():
                key, kind = column.split(":")
                if kind == "s":
                    for row in self.rows[name]:
                        row[key] = self.texts[row[key]] if row[key] else ""

    def read_tables(self, base):
        at, size = Table(self.data, base).vector(1)
        end = at + size
        while at < end:
            length = struct.unpack_from("<I", self.data, at)[0] + 4
            known = TABLES.get(self.data[at + 8 : at + 12])
            if known:
                self.rows[known[0]].append(read_table(self.data, at, known[1]))
            at += (length + 7) & ~7

    def read_slots(self, base):
        chunk = Table(self.data, base)
        process, thread = chunk.scalar(0, "I"), chunk.scalar(1, "I")
        at, count = chunk.vector(4)
        index = 0
        while index < count:
            slot = struct.unpack_from("<BBHIQII", self.data, at + 24 * index)
            details = slot[1] & 3
            self.slots.append((process, thread, slot, at + 24 * (index + 1) if details else None, details))
            index += 1 + details

    def clock(self):
        """ticks -> CLOCK_MONOTONIC ns, between the two clock samples around them."""
        process = self.rows["Process"][0]
        if process["tick_source"] == 0:
            return lambda ticks: float(ticks)
        samples = sorted((row["ticks"], row["monotonic_ns"]) for row in self.rows["ClockSample"])
        assert samples[0][0] < samples[-1][0], "one clock sample only"

        def to_ns(ticks):
            after = min(max(bisect.bisect_right(samples, (ticks, 0)), 1), len(samples) - 1)
            (t0, n0), (t1, n1) = samples[after - 1], samples[after]
            return n0 + (ticks - t0) * (n1 - n0) / (t1 - t0)

        return to_ns

    def add_to(self, trace):
        pids = {row["ordinal"]: row["pid"] for row in self.rows["Process"]}
        operations = {row["op"]: row for row in self.rows["Operation"]}
        now = self.clock() if self.slots else None
        for process, thread, (kind, flags, op, span, start, a, b), detail, details in self.slots:
            operation = operations.get(op, {"op_class": 0, "name": ""})
            if kind in (11, 12):
                weight = now(start + (span * 1024 if flags & LONG_SPAN else span)) - now(start)
                frames = self.texts.get(a, "").splitlines()
                trace.stacks.append(Stack(process, pids[process], thread, operation["name"], now(start), frames, weight, b))
            if kind != 1:
                continue
            op_class = OP_CLASSES.get(operation["op_class"], str(operation["op_class"]))
            layout = "<QQII" if op_class in WITHOUT_STREAM else "<QIIIBBH" if op_class in RANGES else "<QQIBBH"
            values = struct.unpack_from(layout, self.data, detail) if detail else ()
            if values and op_class in WITH_MOUNT:
                values = (*values[:2], self.texts.get(values[2], ""), values[3])
            if op_class in RANGES:
                a, b = self.texts[a] if a else "", self.texts[b] if b else ""
                values = values and (*values[:2], self.texts[values[2]] if values[2] else "", *values[3:5])
            span = span * 1024 if flags & LONG_SPAN else span
            trace.all_calls.append(
                Call(
                    process, pids[process], thread, op_class, operation["name"], now(start), now(start + span), a, b,
                    bool(flags & FAILED), values,
                    struct.unpack_from("<QIIII", self.data, detail + 24) if details == 2 else (),
                )  # fmt: skip
            )
        for name, rows in self.rows.items():
            trace.all_tables[name] += rows


def read_run(directory):
    trace = Trace()
    for path in sorted(Path(directory).glob("*.gwt")):
        FileReader(path).add_to(trace)
    return trace
