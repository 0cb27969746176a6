# SPDX-License-Identifier: Apache-2.0
"""torch.compile with Triton's own compiler, and a step as a CUDA graph: what is recorded of them, and whether compiling gains
what the report on the same training without it foretells."""

import json
import os
import sysconfig
from pathlib import Path

import pytest
from torch_case import ROOT
from torch_zoo import assert_kept

TRAIN, MODELS = "train.py", "small_models.py"
STEPS = 200
SHORT_KERNELS = ["--batch", 256, "--width", 64, "--steps", STEPS]
MANY_LAUNCHES = ["--depth", 30]
TRIES, AS_FAST = 3, 1.25


@pytest.fixture(scope="module")
def triton(tmp_path_factory):
    """Environment of a job that has it. It is the wheel's own requirement, 0.7 GB, and may be absent."""
    place = Path(os.environ.get("GPUWATCH_TRITON", ROOT / "build/triton"))
    if not (place / "triton").exists():
        pytest.skip(f"Triton is not in {place}: run `scripts/torch_cuda.sh --triton` (198 MB)")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        pytest.skip("Triton compiles what launches its kernels, and Python.h is not here")
    caches = tmp_path_factory.mktemp("compiled")
    return {"PYTHONPATH": place, "TRITON_CACHE_DIR": caches / "triton", "TORCHINDUCTOR_CACHE_DIR": caches / "inductor"}


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_every_kernel_of_compiled_code_is_recorded(zoo, triton, mode, tmp_path):
    truth = tmp_path / "truth.jsonl"
    job = zoo.run(TRAIN, [*SHORT_KERNELS, *MANY_LAUNCHES, "--compile", mode], {**triton, "GWSIM_TRUTH": truth})
    assert job.injected.stderr == ""
    assert job.report["coverage"]["launches_matched_share"] == 1 and job.report["trace"]["lost_events"] == 0
    assert job.report["ranks"][0]["steps"]["count"] == STEPS
    kernels = [op for op in map(json.loads, truth.read_text().splitlines()) if op["type"] == "op" and op["kind"] == "kernel"]
    assert any(kernel["name"].startswith("triton_") for kernel in kernels)


def speed_changed(*jobs):
    """By how much the machine did, from the start of the first job to the end of the last: longest by shortest time of the same loop."""
    loops = [ms for job in jobs for ms in job.said["loops_ms"]]
    return max(loops) / min(loops)


@pytest.mark.parametrize("model", ["mlp of 30 layers", "8 residual blocks"])
def test_the_compiler_gains_what_is_foretold(zoo, triton, model):
    for attempt in range(TRIES):
        eager = zoo.run(MODELS, [model], {"ATTEMPT": str(attempt)})
        found = eager.find("launch-bound")
        assert found and (found["fix"]["setting"], found["fix"]["value"]) == ("torch.compile", 'mode="reduce-overhead"'), eager.say()
        compiled = zoo.run(MODELS, [model, "--compile", "reduce-overhead"], {"ATTEMPT": str(attempt), **triton})
        if speed_changed(eager, compiled) < AS_FAST:
            return assert_kept(found, eager, compiled)
    pytest.skip(f"the machine became up to {speed_changed(eager, compiled):.1f} times as slow meanwhile")


def test_a_step_in_a_graph_is_a_step(zoo):
    eager = zoo.run(TRAIN, [*SHORT_KERNELS, *MANY_LAUNCHES])
    graph = zoo.run(TRAIN, [*SHORT_KERNELS, *MANY_LAUNCHES, "--graph"])
    assert graph.report["ranks"][0]["steps"]["count"] == STEPS
    assert graph.report["coverage"]["launches_matched_share"] == 1
    assert not any("no GPU record" in limit for limit in graph.report["limits"]), graph.say()
    advice = graph.find("launch-bound")  # what is between two graphs is the host's: a larger batch, no graph
    assert not advice or advice["fix"]["setting"] == "batch_size", graph.say()
    assert graph.own_step_ms < eager.own_step_ms
