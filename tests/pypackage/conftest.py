# SPDX-License-Identifier: Apache-2.0
"""Reports of traces that were recorded on a GPU, read by the Python package and, apart from it, by the program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/page")]
import gpuwatch as package  # noqa: E402
from made_trace import write_trace  # noqa: E402
from recorded_trace import unpack  # noqa: E402


class Read:
    """One trace: the package's report, and what the program says of it."""

    def __init__(self, program, trace):
        self.program, self.trace = program, trace
        self.report = package.read(trace, program=program, step_times=True)
        said = subprocess.run([program, "analyze", trace, "--json", "--step-times"], capture_output=True, check=True, timeout=120)
        self.said = json.loads(said.stdout)


@pytest.fixture(scope="session")
def recording(gpuwatch, tmp_path_factory):
    """recording(name) -> Read"""
    known = {}

    def read(name):
        if name not in known:
            known[name] = Read(gpuwatch, unpack(name, tmp_path_factory.mktemp(name)))
        return known[name]

    return read


@pytest.fixture(scope="session")
def two_ranks(gpuwatch, tmp_path_factory):
    """Read, of a job of two ranks; the second one has a cause that the first one has not"""
    folder = tmp_path_factory.mktemp("ranks")
    for rank in (0, 1):
        file = write_trace(folder / f"{rank}.json", ["kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"][: 1 + rank], 30, 10)
        job = f'"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": 2}}'
        file.write_text(file.read_text().replace('"schemaVersion": 1', f'"schemaVersion": 1, {job}').replace('"pid": 100', f'"pid": {100 + rank}'))
    return Read(gpuwatch, folder)


@pytest.fixture(scope="session")
def two_gpus(gpuwatch, tmp_path_factory):
    """Read, of one process with every second kernel on another GPU"""
    file = write_trace(tmp_path_factory.mktemp("gpus") / "trace.json", ["kernel"], 30, 10)
    trace = json.loads(file.read_text())
    trace["deviceProperties"].append({**trace["deviceProperties"][0], "id": 1})
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel" and event["args"]["correlation"] % 2:
            event["pid"] = event["args"]["device"] = 1
    file.write_text(json.dumps(trace))
    return Read(gpuwatch, file)


@pytest.fixture(scope="session")
def made(gpuwatch, tmp_path_factory):
    """made(names) -> Read, of a torch.profiler trace whose kernels, threads and device have these names"""
    return lambda names: Read(gpuwatch, write_trace(tmp_path_factory.mktemp("made") / "trace.json", names, 30, 10))
