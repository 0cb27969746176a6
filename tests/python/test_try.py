# SPDX-License-Identifier: Apache-2.0
"""`gpuwatch try` on jobs whose second run is dangerous: nothing of the user's is changed, no process is left over, and what was
measured is told, whatever the job does."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PROGRAMS

PROGRAM = PROGRAMS / "trying.py"


@pytest.fixture
def job(tmp_path):
    """The job's folder, with a checkpoint and a log that the user cares about."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "log.txt").write_text("started at step 0\n")
    (folder / "notes.md").write_text("do not touch\n")
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def try_job(build, injected_environment, job, tmp_path):
    """try_job(*words, options=()) -> (report, stderr, exit code); the trials' folder lies outside the job's."""

    def start(*words, options=()):
        environment = {name: value for name, value in injected_environment.items() if not name.startswith(("LD_", "GPUWATCH_"))}
        environment["XDG_DATA_HOME"] = str(tmp_path / "data")
        command = [build / "bin/gpuwatch", "try", "--json", "-o", tmp_path / "trials", "--seconds", "25", *options]
        return subprocess.Popen(
            [*map(str, command), sys.executable, str(PROGRAM), *words], cwd=job, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(*words, options=()):
        process = start(*words, options=options)
        stdout, stderr = process.communicate(timeout=300)
        return (json.loads(stdout) if stdout else None), stderr, process.returncode

    run.start = start
    return run


def printed_rates(output):
    """Samples a second over each 20 steps, as the job printed them."""
    return [float(line.split()[-2]) for line in output.read_text().splitlines() if line.endswith(" samples/s")]


def processes_of(folder):
    """Those that still run in a folder, whatever they are."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if Path(os.readlink(entry / "cwd")) == folder:
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                pass
    return found


def has_overlay():
    """Asked of the kernel by other means than gpuwatch's."""
    mount = "cd $(mktemp -d) && mount -t tmpfs t . && mkdir l u w && mount -t overlay o -o lowerdir=l,upperdir=u,workdir=w,userxattr l"
    return any(subprocess.run(["unshare", how, "sh", "-c", mount], capture_output=True).returncode == 0 for how in ("-m", "-Urm"))


needs_overlay = pytest.mark.skipif(not has_overlay(), reason="overlays cannot be mounted here")


@needs_overlay
def test_the_first_setting_is_applied_and_comes_true(try_job, job, tmp_path):
    before = contents(job)
    report, stderr, code = try_job(options=("--changes", "1"))
    assert code == 0, (stderr, report)
    first, second = report["trials"][:2]
    assert first["change"] is None and first["step_ms"] > 40  # 8 samples of 5 ms, one after another
    assert second["change"]["finding"] == "dataloader-workers"
    (setting,) = second["change"]["settings"]
    assert setting.startswith("num_workers=")
    line = next(i for i, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "DataLoader(Served(" in text)
    assert second["change"]["location"] == f"{PROGRAM}:{line}"
    assert second["applied"] and second["applied"][0].startswith(f"{setting} (was 0) at ")
    assert second["kept"] and second["speedup"] > 2
    assert second["own_clock"]["unit"] == "samples/s"
    for number, trial in enumerate((first, second), 1):  # two clocks of one run each
        rates = printed_rates(tmp_path / f"trials/{number}.txt")
        assert min(rates) <= trial["own_clock"]["value"] <= max(rates)
        assert trial["step_ms"] == pytest.approx(statistics.mean(8e3 / rate for rate in rates[1:]), rel=0.1)
    # The interrupt comes at the end of a step: the script's innermost line is the optimizer's.
    trace = (tmp_path / "trials/1.txt").read_text().rpartition("Traceback")[2].splitlines()
    places = [i for i, text in enumerate(trace) if f'"{PROGRAM}"' in text]
    assert trace[places[-1] + 1].strip() == "optimizer.step()" and trace[-1] == "KeyboardInterrupt"
    assert contents(job) == before
    assert processes_of(job) == []
    if second["change"]["prediction"] is None:  # the range was too wide to be one, as beside a busy program
        assert not (tmp_path / "data/gpuwatch/predictions.jsonl").exists()
        return
    kept = (tmp_path / "data/gpuwatch/predictions.jsonl").read_text()
    assert str(job) not in kept and "trying" not in kept
    assert json.loads(kept.splitlines()[0])["setting"] == "num_workers"


@needs_overlay
@pytest.mark.parametrize(
    "words", [("--save-at-exit",), ("--ignore-signals", "--daemon", "600", "--save-at-exit")], ids=["saves", "ignores-signals"]
)
def test_jobs_that_do_not_end_well_leave_nothing(try_job, job, words):
    before = contents(job)
    report, stderr, code = try_job(*words, options=("--steps", "60", "--changes", "0"))
    assert code == 0, (stderr, report)
    assert report["trials"][0]["steps"] >= 60
    assert contents(job) == before
    assert processes_of(job) == []


@needs_overlay
def test_a_job_that_dies_with_the_setting_leaves_the_first_result(try_job, job):
    before = contents(job)
    report, stderr, code = try_job("--die-with-workers", options=("--steps", "40", "--changes", "1"))
    assert code == 0, (stderr, report)
    first, second = report["trials"]
    assert first["step_ms"] > 40
    assert second["step_ms"] is None and not second["kept"]
    assert "no workers on this cluster" in second["problem"]
    assert contents(job) == before


@needs_overlay
def test_workers_of_a_loader_that_is_made_anew_cannot_be_kept(try_job, build, tmp_path):
    """It is named, because the script can be changed; the argument alone would change nothing, and is not tried."""
    report, stderr, code = try_job("--anew", "6", "--num-workers", "1", options=("--changes", "3"))
    assert code == 0, f"{report}\n{stderr}"
    tried = [setting for trial in report["trials"][1:] for setting in trial["change"]["settings"]]
    assert tried and not [setting for setting in tried if setting.startswith("persistent_workers")], tried
    done = subprocess.run([build / "bin/gpuwatch", "analyze", tmp_path / "trials/1", "--json"], check=True, capture_output=True, text=True)
    summaries = {finding["id"]: finding["fix"]["summary"] for finding in json.loads(done.stdout)["findings"]}
    assert summaries["dataloader-persistent-workers"].lower().startswith("make each dataloader once"), summaries


def test_ranks_end_together(try_job, job, build, injected_environment, tmp_path):
    before = contents(job)
    command = [
        build / "bin/gpuwatch", "try", "--json", "-o", tmp_path / "trials", "--seconds", "40", "--steps", "40", "--changes", "1", "--",
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29741", PROGRAM,
    ]  # fmt: skip
    environment = {name: value for name, value in injected_environment.items() if not name.startswith(("LD_", "GPUWATCH_"))}
    environment["XDG_DATA_HOME"] = str(tmp_path / "data")
    done = subprocess.run(list(map(str, command)), cwd=job, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    trials = json.loads(done.stdout)["trials"]
    assert len(trials) == 2 and all(trial["step_ms"] for trial in trials)
    assert trials[1]["applied"]
    assert contents(job) == before
    assert processes_of(job) == []


@needs_overlay
def test_ctrl_c_ends_the_trial_and_tells_what_is_known(try_job, job):
    before = contents(job)
    process = try_job.start(options=("--steps", "100000"))
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert json.loads(stdout)["trials"][0]["steps"] > 0
    assert contents(job) == before
    assert processes_of(job) == []


def test_in_place_writes_stay(try_job, job):
    report, stderr, code = try_job(options=("--in-place", "--steps", "40", "--changes", "0"))
    assert code == 0, (stderr, report)
    assert len(report["trials"]) == 1
    assert (job / "last.pt").exists()


def test_a_command_that_cannot_be_started(build, tmp_path):
    done = subprocess.run([build / "bin/gpuwatch", "try", "-o", tmp_path / "t", "./nothing"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "./nothing" in done.stdout + done.stderr
