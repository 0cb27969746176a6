# SPDX-License-Identifier: Apache-2.0
"""The questions of the acceptance run that need PyTorch on a GPU. Each part tries, and says why it could not."""

from rig import Figure, alternate, cost_figures, expect
from sections import complete, judged


def framework(rig):
    said = rig.need_torch()
    yield Figure("torch", said["torch"])
    yield Figure("CUDA of torch", said["cuda"])
    _, run = rig.torch_job("resnet50", "--steps", rig.pick(20, 5), recorded=True)
    for name, state in run.sources.items():
        yield Figure(f"source {name}, PyTorch", state)
    yield from complete("resnet50", run)


# --- cost --------------------------------------------------------------------------------------------------------------


def cost_part(job, block, pairs=7):
    """Two processes, one with the library, take turns: a block of steps each."""

    def part(rig):
        off, on = rig.served_pair()
        for served in (off, on):
            served.steps(job, 3)  # built and warm before anything is timed
        times = alternate(rig.pick(pairs, 2), lambda: off.steps(job, block), lambda: on.steps(job, block))
        yield from cost_figures(job, times, 10_000 if job == "tiny-kernels" else None)

    return part


# --- torch.profiler ----------------------------------------------------------------------------------------------------


def beside_profiler(rig):
    exports = {False: rig.scratch / "alone.json", True: rig.scratch / "beside.json"}
    said, run = {}, None
    for recorded, export in exports.items():
        said[recorded], run = rig.torch_job("profiled", "--export", export, recorded=recorded)
    alone, beside = said[False]["kernels"], said[True]["kernels"]
    yield Figure("torch.profiler alone: kernels", sum(alone.values()))
    yield Figure("torch.profiler beside gpuwatch: kernels", sum(beside.values()))
    differing = sorted(name for name in {*alone, *beside} if alone.get(name) != beside.get(name))
    yield Figure("kernel names with another count", len(differing), raw=differing)
    yield Figure("source cupti beside torch.profiler", run.sources.get("cupti"))
    per_step = sum(alone.values()) / said[False]["profiled_steps"]
    outside = per_step * (said[True]["steps"] - said[True]["profiled_steps"])
    yield Figure("kernels of the steps outside the profiler, as far as they are like those inside", outside)
    yield Figure("kernels that gpuwatch recorded", len(run.device_trace().of_kind("kernel")))
    expect(alone, "torch.profiler saw no kernel even alone")
    expect(not differing, f"torch.profiler's kernels are others beside gpuwatch: {', '.join(differing[:3])}")


# --- NCCL --------------------------------------------------------------------------------------------------------------


def collectives(rig):
    _, run = rig.torch_job("collective", recorded=True)
    for name in ("nccl", "nvtx", "cupti"):
        yield Figure(f"one rank of NCCL: source {name}", run.sources.get(name, "not in this build"))
    calls = {}
    for call in run.device_trace().calls:
        if call.name.startswith("nccl"):
            calls[call.name] = calls.get(call.name, 0) + 1
    yield Figure("calls of NCCL recorded", sum(calls.values()), raw=sorted(calls.items()))


# --- findings ----------------------------------------------------------------------------------------------------------


# Stall -> the finding whose remedy its --fixed is; no rule knows of precision.
CASES = {
    "pageable-copy": "pin-memory",
    "exposed-copy": "blocking-copy",
    "item-each-step": "sync-per-step",
    "many-launches": "launch-bound",
    "single-precision": None,
    "cache-emptied": "allocator-churn",
    "small-batch": "small-batch",
}


def case_part(case, steps=100):
    def part(rig):
        arguments = [case, "--steps", rig.pick(steps, 20)]
        _, run = rig.torch_job(*arguments, recorded=True)
        said, _ = rig.torch_job(*arguments, "--fixed")
        yield from judged(case, run.report, [said["mean_ms"]], CASES[case], said["samples"])

    return part


