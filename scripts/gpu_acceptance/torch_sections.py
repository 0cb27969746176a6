# SPDX-License-Identifier: Apache-2.0
"""The questions of the acceptance run that need PyTorch on a GPU. A part that cannot run says why."""

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
    """Two processes, one with the library, run blocks of steps in turn."""

    def part(rig):
        off, on = rig.served_pair()
        for served in (off, on):
            served.steps(job, 3)  # build and warm up before timing
        times = alternate(rig.pick(pairs, 2), lambda: off.steps(job, block), lambda: on.steps(job, block))
        yield from cost_figures(job, times, 10_000 if job == "tiny-kernels" else None)

    return part


# --- torch.profiler ----------------------------------------------------------------------------------------------------


def with_profiler(rig):
    exports = {False: rig.scratch / "alone.json", True: rig.scratch / "with.json"}
    said, run = {}, None
    for recorded, export in exports.items():
        said[recorded], run = rig.torch_job("profiled", "--export", export, recorded=recorded)
    alone, joint = said[False]["kernels"], said[True]["kernels"]
    yield Figure("torch.profiler alone: kernels", sum(alone.values()))
    yield Figure("torch.profiler with gpuwatch: kernels", sum(joint.values()))
    differing = sorted(name for name in {*alone, *joint} if alone.get(name) != joint.get(name))
    yield Figure("kernel names whose counts differ", len(differing), raw=differing)
    yield Figure("source cupti with torch.profiler", run.sources.get("cupti"))
    per_step = sum(alone.values()) / said[False]["profiled_steps"]
    outside = per_step * (said[True]["steps"] - said[True]["profiled_steps"])
    yield Figure("expected kernels of the steps outside the profile", outside)
    yield Figure("kernels that gpuwatch recorded", len(run.device_trace().of_kind("kernel")))
    expect(alone, "torch.profiler recorded no kernel even without gpuwatch")
    expect(not differing, f"torch.profiler's kernels differ with gpuwatch: {', '.join(differing[:3])}")


# --- NCCL --------------------------------------------------------------------------------------------------------------


def collectives(rig):
    _, run = rig.torch_job("collective", recorded=True)
    for name in ("nccl", "nvtx", "cupti"):
        yield Figure(f"one rank of NCCL: source {name}", run.sources.get(name, "not in this build"))
    calls = {}
    for call in run.device_trace().calls:
        if call.name.startswith("nccl"):
            calls[call.name] = calls.get(call.name, 0) + 1
    yield Figure("recorded NCCL calls", sum(calls.values()), raw=sorted(calls.items()))


# --- findings ----------------------------------------------------------------------------------------------------------


# Stall -> the finding whose remedy is --fixed. None: no rule knows precision on a GPU.
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


