# SPDX-License-Identifier: Apache-2.0
"""Runs a workload on the simulated device and checks that its two logs agree with each other and with its options.

usage: check_program.py PROGRAM LIBRARIES KERNELS_PER_STEP COPIES_PER_STEP [CONFIG]

No wall-clock time is asserted: what is compared comes from the device's log and the program's phases of this run.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict

STEPS = 6


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def run(program, libraries, config, folder):
    truth, phases = os.path.join(folder, "truth"), os.path.join(folder, "phases")
    environment = dict(os.environ, LD_LIBRARY_PATH=libraries, GWSIM_TRUTH=truth, GWSIM_PHASES=phases)
    environment.pop("GWSIM_CONFIG", None)
    if config:
        environment["GWSIM_CONFIG"] = config
    subprocess.run([program, "--steps", str(STEPS)], env=environment, check=True, timeout=120)
    return lines(truth), lines(phases)


def check_durations(operations):
    for operation in operations:
        suffix = re.search(r"_(\d+)(us|ms)", operation.get("name", ""))
        if suffix:
            expected = int(suffix.group(1)) * {"us": 1_000, "ms": 1_000_000}[suffix.group(2)]
            assert operation["end"] - operation["start"] == expected, operation
        assert operation["submit"] <= operation["start"] <= operation["end"], operation


def check_stream_order(operations):
    by_stream = defaultdict(list)
    for operation in operations:
        by_stream[operation["stream"]].append(operation)
    for stream in by_stream.values():
        stream.sort(key=lambda operation: (operation["start"], operation["end"]))
        for before, after in zip(stream, stream[1:]):
            assert before["end"] <= after["start"], (before, after)


def check_host(calls, operations, phases):
    """Every operation was submitted inside the call that it names; a wait ends no earlier than what it waited for."""
    by_id = {call["corr"]: call for call in calls}
    for operation in operations:
        call = by_id[operation["corr"]]
        assert call["begin"] <= operation["submit"] <= call["end"], (call, operation)
    for call in calls:
        assert call["end"] >= call.get("until", 0), call
    steps = sorted((p for p in phases if p["phase"] == "step"), key=lambda p: p["step"])
    assert [p["step"] for p in steps] == list(range(STEPS)), steps
    for before, after in zip(steps, steps[1:]):
        assert before["begin"] <= before["end"] <= after["begin"]


def main():
    program, libraries, kernels, copies = sys.argv[1:5]
    config = sys.argv[5] if len(sys.argv) > 5 else None
    with tempfile.TemporaryDirectory() as folder:
        truth, phases = run(program, libraries, config, folder)
    assert truth[0]["type"] == "header" and truth[0]["device"] == "Simulated GPU", truth[0]
    operations = [line for line in truth if line["type"] == "op"]
    calls = [line for line in truth if line["type"] == "host"]

    def count(kind):
        return sum(operation["kind"] == kind for operation in operations)

    assert count("kernel") == STEPS * int(kernels), count("kernel")
    assert count("copy.h2d") + count("copy.d2h") == STEPS * int(copies), (count("copy.h2d"), count("copy.d2h"))
    check_durations(operations)
    check_stream_order(operations)
    check_host(calls, operations, phases)


if __name__ == "__main__":
    main()
