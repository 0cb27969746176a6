# SPDX-License-Identifier: Apache-2.0
"""The acceptance run, rehearsed on the simulated device: real figures where nvcc's programs answer, an honest reason where
PyTorch would, nothing left behind by a section that hangs, nothing lost by a cut."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/gpu_acceptance.sh"
FOLDER = ROOT / "scripts/gpu_acceptance"


def environment(**settings):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUWATCH_", "GWSIM_", "LD_"))}
    return {**kept, "PYTHON": sys.executable, **{name: str(value) for name, value in settings.items()}}


def acceptance(*options, **settings):
    command = [str(word) for word in (SCRIPT, *options)]
    return subprocess.run(command, env=environment(**settings), capture_output=True, text=True, timeout=300)


def results_in(folder):
    return json.loads((folder / "simulated-device.json").read_text())


@pytest.fixture(scope="session")
def rehearsal(build, workloads, sim_lib, tmp_path_factory):
    """(finished run, {section id: entry}, raw numbers) of everything, once."""
    folder = tmp_path_factory.mktemp("acceptance")
    done = acceptance("--simulated", "--quick", folder, GPUWATCH_BUILD=build)
    results = results_in(folder)
    assert results["device"] == "Simulated device" and results["quick"] and results["ended"]
    raw = json.loads((folder / "simulated-device.raw.json").read_text())
    return done, {section["id"]: section for section in results["sections"]}, raw


def figures(section, part=None):
    parts = [section["parts"][part]] if part else section["parts"].values()
    return {figure["what"]: figure["value"] for each in parts for figure in each["figures"]}


def test_every_section_says_what_became_of_it(rehearsal):
    done, sections, _ = rehearsal
    assert len(sections) == len(done.stdout.splitlines()) == 13
    for section in sections.values():
        assert section["question"].endswith("?")
        assert section["status"] == "ok" or section["reason"], section["id"]
        for part in section["parts"].values():
            assert part["figures"] if part["status"] == "ok" else part["reason"]


def test_the_exit_status_is_that_of_the_sections(rehearsal):
    done, sections, _ = rehearsal
    failed = [f"{s['id']}: {s['reason']}" for s in sections.values() if s["status"] == "failed"]
    assert (done.returncode, failed) == (0, [])


def test_sources_are_open(rehearsal):
    said = figures(rehearsal[1]["environment"])
    assert said["source cuda"] == said["source cupti"] == "on"
    assert said["GPU"] == "Simulated GPU"
    assert said["doctor: cupti"] == "libcupti.so.13"


def test_launches_are_counted_and_time_sums_up(rehearsal):
    said = figures(rehearsal[1]["launches"])
    assert said["launch_bound: kernels in the trace"] == said["launch_bound: kernels launched"] == 20 * 401
    assert said["healthy: wall time minus the sum of its causes"] == said["healthy: dropped records"] == 0
    assert said["healthy: launches with a kernel"] == 100


def test_cost_is_stated_in_pairs(rehearsal):
    _, sections, raw = rehearsal
    (name,) = [name for name in raw if name.startswith("cost-calls/as dispatched/") and "without" in name]
    without, with_recording = raw[name], raw[name.replace("without", "with")]
    assert len(without) == len(with_recording) == 3
    assert min(without) > 500 * 5e-3  # 500 kernels of 5 us each run one after the other, in ms
    said = figures(sections["cost-calls"], "as dispatched")
    longer = sorted((b / a - 1) * 100 for a, b in zip(without, with_recording))
    assert said[name.split("/")[-1].replace("without recording", "longer by")] == pytest.approx(longer[1])


def test_recording_did_stop_and_events_are_small(rehearsal):
    section = rehearsal[1]["residual"]
    assert figures(section, "after the budget")["recording stopped after"] > 0
    # A launch and its kernel are slots of 24 bytes each, beside tables and page ends.
    assert 48 <= figures(section, "bytes")["bytes for a launch with its kernel, everything included"] < 60


def test_time_stamps_against_events(rehearsal):
    said = figures(rehearsal[1]["timestamps"])
    # The simulated kernel takes exactly 2 ms; events pass their stream before it starts and after it ended.
    assert said["events around a kernel minus its recorded duration"] > 0
    assert said["largest distance of a kernel outside the calls around it, on the host's clock"] <= 1
    assert said["from the launch to the kernel's start"] > 0


WANTED = {
    "pageable copies": "pin-memory",
    "exposed copies": "blocking-copy",
    "a synchronization each step": "sync-per-step",
    "launch-bound": "launch-bound",
    "allocation each step": "allocator-churn",
    "small batch": "small-batch",
}


@pytest.mark.parametrize("case", WANTED)
def test_findings_of_the_programs(rehearsal, case):
    said = figures(rehearsal[1]["findings"], case)
    found = said[f"{case}: findings, first to last"].split(", ")
    # On a busy machine it is the truth that others take the CPU from a job that is bound by its host.
    assert WANTED[case] in found or found[0].startswith("cpu-")
    assert said[f"{case}: step before"] > 0 and said[f"{case}: step with the remedy"] > 0
    if found[0] != WANTED[case]:
        assert said[f"{case}: prediction"].startswith("not compared")
    elif f"{case}: prediction" not in said:
        assert said[f"{case}: inside the predicted interval"] in ("yes", "no")


def test_torch_was_tried(rehearsal):
    section = rehearsal[1]["profiler"]
    if importlib.util.find_spec("torch") is None:
        assert "no PyTorch here" in section["reason"]
        return
    import torch

    assert section["status"] == "not-run"
    if torch.version.cuda is None:
        assert "this PyTorch has no CUDA" in section["reason"] and torch.__version__ in section["reason"]
    else:
        assert "PyTorch cannot use the device" in section["reason"]


def test_without_a_gpu_it_says_so(tmp_path):
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a GPU here")
    done = acceptance(tmp_path / "results")
    assert done.returncode == 2
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1 and "no NVIDIA GPU here" in done.stderr
    assert not (tmp_path / "results").exists()


def test_the_real_runtime_is_found_and_its_refusal_is_no_failure(tmp_path, workloads):
    """The programs run with the vendor's own runtime, which finds no driver here."""
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a GPU here")
    sys.path.insert(0, str(FOLDER))
    from rig import NotRun, Rig

    with pytest.raises(NotRun, match="insufficient for CUDA runtime|libcudart.so.13: cannot open"):
        Rig(simulated=False, quick=True, scratch=tmp_path).workload("launch_bound", "--steps", 5)


def test_stand_ins_are_no_results(sim_lib, build, tmp_path):
    """Neither under their own name nor passed off as a GPU."""
    before = sorted((ROOT / "docs/gpu-results").iterdir())
    done = acceptance("--simulated", ROOT / "docs/gpu-results", GPUWATCH_BUILD=build)
    assert done.returncode == 2 and "do not belong" in done.stderr
    done = acceptance(tmp_path, GPUWATCH_BUILD=build, LD_LIBRARY_PATH=sim_lib)
    assert done.returncode == 2 and "simulated" in done.stderr
    assert sorted((ROOT / "docs/gpu-results").iterdir()) == before and not list(tmp_path.iterdir())


@pytest.fixture
def hanging_build(build, tmp_path):
    """A build whose `event_pairs` starts a process in a session of its own and never ends."""
    copy = tmp_path / "build"
    (copy / "bin/workloads").mkdir(parents=True)
    (copy / "lib").symlink_to(build / "lib")
    (copy / "bin/gpuwatch").symlink_to(build / "bin/gpuwatch")
    for program in (build / "bin/workloads").iterdir():
        (copy / "bin/workloads" / program.name).symlink_to(program)
    hanging = copy / "bin/workloads/event_pairs"
    hanging.unlink()
    pids = tmp_path / "pids"
    hanging.write_text(f"#!/bin/sh\nsetsid sh -c 'echo $$ >> {pids}; exec sleep 1000' &\necho $$ >> {pids}\nexec sleep 1000\n")
    hanging.chmod(0o755)
    return copy


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_a_section_that_hangs_is_killed_and_the_next_one_runs(hanging_build, tmp_path):
    folder = tmp_path / "results"
    choice = ["--only", "timestamps", "--only", "injection", "--seconds", 15]
    done = acceptance("--simulated", "--quick", *choice, folder, GPUWATCH_BUILD=hanging_build)
    hung, after = results_in(folder)["sections"]
    assert (hung["status"], hung["reason"]) == ("failed", "killed after 15 s")
    assert hung["parts"]["event pairs"]["reason"] == "cut"
    assert after["id"] == "injection" and after["parts"]["NCCL"]["reason"]
    assert done.returncode == 1
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2 and not any(map(is_alive, pids))


def test_a_cut_leaves_what_was_done(hanging_build, tmp_path):
    """SIGKILL while the second section runs: the first one's results are there, whole, and nothing runs on."""
    folder = tmp_path / "results"
    choice = ["--only", "launches", "--only", "timestamps"]
    command = [str(w) for w in (SCRIPT, "--simulated", "--quick", *choice, folder)]
    process = subprocess.Popen(command, env=environment(GPUWATCH_BUILD=hanging_build), stdout=subprocess.DEVNULL)
    wait_until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    results = results_in(folder)
    assert [section["id"] for section in results["sections"]] == ["launches"]
    assert results["ended"] is None
    assert figures(results["sections"][0])["launch_bound: kernels in the trace"] == 20 * 401
    hung, escaped = sorted((tmp_path / "pids").read_text().split(), key=lambda pid: os.getpgid(int(pid)) == int(pid))
    wait_until(lambda: not is_alive(hung))
    os.kill(int(escaped), signal.SIGKILL)  # of a session of its own, and nobody is left to look for it


def test_the_page_says_what_the_results_say(rehearsal, tmp_path):
    sys.path.insert(0, str(FOLDER))
    import render

    assert "No results on a real GPU yet." in render.page(tmp_path)
    results = {"device": "A <b>GPU|", "quick": False, "begun": "then", "ended": None, "sections": list(rehearsal[1].values())}
    (tmp_path / "gpu.json").write_text(json.dumps(results))
    text = render.page(tmp_path)
    assert "## A &lt;b>GPU\\|" in text and "The run was interrupted" in text
    assert "| launch_bound: kernels in the trace | 8020 |" in text
    assert (ROOT / "docs/gpu-results/README.md").read_text() == render.page(), "run scripts/gpu_acceptance.sh --render"


def test_the_interval_of_a_median():
    sys.path.insert(0, str(FOLDER))
    from rig import median_interval

    # Order statistics: of 9 values the second and the eighth enclose the median with 96.1 %.
    assert median_interval(range(1, 10)) == (5, 2, 8, pytest.approx(0.9609, abs=1e-4))
    assert median_interval(range(1, 7)) == (3.5, 1, 6, pytest.approx(0.96875))
    assert median_interval([1, 2, 3]) == (2, 1, 3, 0.75)
