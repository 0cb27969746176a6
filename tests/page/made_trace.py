# SPDX-License-Identifier: Apache-2.0
"""Traces as torch.profiler exports them, made up: with names that would do harm in a careless page, or very large."""

import json

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=https://example.com/x onerror=alert(2)>",
    "<!--<script>",
    "'\"><svg onload=alert(3)>",
    "${alert(4)}{{alert(5)}}\u2028javascript:alert(6)",
)


def event(name, category, begin, length, thread, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": 0 if category == "kernel" else 100, "tid": thread, "ts": begin, "dur": length, "args": arguments}


def step_of(number, begin, names, kernels):
    """One step of 10 ms: launches, and the kernels that they start."""
    yield event(f"ProfilerStep#{number}", "user_annotation", begin, 10000, 100)
    each = 9000 / kernels
    for i in range(kernels):
        name, correlation, at = names[i % len(names)], number * kernels + i + 1, begin + i * each
        yield event("cudaLaunchKernel", "cuda_runtime", at, each * 0.3, 100, correlation=correlation)
        yield event(name, "kernel", at + each * 0.4, each * 0.5, 7, device=0, context=1, stream=7, correlation=correlation,
                    grid=[64, 1, 1], block=[128, 1, 1])


def write_trace(path, names, steps, kernels):
    device = {"id": 0, "name": names[0], "totalGlobalMem": 1 << 34, "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    with open(path, "w") as file:
        file.write(f'{{"schemaVersion": 1, "deviceProperties": [{json.dumps(device)}], "traceEvents": [\n')
        file.write(json.dumps({"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "args": {"name": names[1 % len(names)]}}))
        for number in range(steps):
            for made in step_of(number, 1000 + number * 10000, names, kernels):
                file.write(",\n" + json.dumps(made))
        file.write("]}\n")
    return path
