# SPDX-License-Identifier: Apache-2.0
"""Where traces go, and which processes are one run: what the process was started with, whatever it does to that later."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.beside_others


@pytest.fixture
def run_here(injected_environment, tmp_path):
    """run_here(command, env={...}): in tmp_path, which is where traces go when GPUWATCH_OUT is not given."""

    def run(command, env=None):
        environment = {**injected_environment, **(env or {})}
        if "GPUWATCH_OUT" not in (env or {}):
            del environment["GPUWATCH_OUT"]
        done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")

    return run


def files_of_runs(folder):
    """Number of files in each run's directory."""
    return sorted(len(list(run.glob("*.gwt"))) for run in folder.glob("gpuwatch-*"))


@pytest.mark.parametrize("out", ["run", "./run", None])
def test_title_over_arguments_and_environment(run_here, guests, tmp_path, out):
    import raw_trace

    run_here([guests / "title", "a long argument, so that a title fits"], {"GPUWATCH_OUT": out} if out else None)
    (directory,) = [tmp_path / out] if out else tmp_path.glob("gpuwatch-title-*")
    (process,) = raw_trace.read_run(directory).tables("Process")
    assert process["script"] == "title"


def test_two_jobs_of_a_shell(run_here, guests, tmp_path):
    run_here(["sh", "-c", f"{guests / 'threads'}; {guests / 'threads'}; true"])
    assert files_of_runs(tmp_path) == [1, 1]


def test_two_jobs_of_a_batch_script(run_here, guests, tmp_path):
    run_here(["sh", "-c", f"{guests / 'threads'}; {guests / 'threads'}; true"], {"SLURM_JOB_ID": "7"})
    assert files_of_runs(tmp_path) == [1, 1]


def test_tasks_of_a_slurm_step(run_here, guests, tmp_path):
    tasks = f"SLURM_PROCID=0 {guests / 'threads'}; SLURM_PROCID=1 {guests / 'threads'}; true"
    run_here(["sh", "-c", tasks], {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"})
    assert files_of_runs(tmp_path) == [2]


RANKS = "RANK=0 {1} {0} & RANK=1 {1} {0} & wait"
LAUNCHER = "import os, subprocess as s; [p.wait() for p in [s.Popen([{0!r}], env=dict(os.environ, RANK=str(r), WORLD_SIZE='2')) for r in range(2)]]"


@pytest.mark.parametrize("size", ["WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1 WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE=2", "PMI_SIZE=2"])
def test_ranks_that_a_shell_starts(run_here, guests, tmp_path, size):
    run_here(["sh", "-c", RANKS.format(guests / "threads", size)])
    assert files_of_runs(tmp_path) == [2]


def test_one_rank_each(run_here, guests, tmp_path):
    run_here(["sh", "-c", RANKS.format(guests / "threads", "WORLD_SIZE=1")])
    assert files_of_runs(tmp_path) == [1, 1]


def test_ranks_of_mpirun_in_a_batch_script(run_here, guests, tmp_path):
    """mpirun gives its ranks the library and has none itself; the job has no step, whose number they would share."""
    for rank in range(2):
        run_here([guests / "threads"], {"SLURM_JOB_ID": "7", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": str(rank)})
    assert files_of_runs(tmp_path) == [2]


def test_ranks_of_two_launchers(run_here, guests, tmp_path):
    (tmp_path / "launch.py").write_text(LAUNCHER.format(str(guests / "threads")))
    run_here(["sh", "-c", f"{sys.executable} launch.py; {sys.executable} launch.py; true"])
    assert files_of_runs(tmp_path) == [2, 2]


def test_programs_that_a_job_starts(run_here, guests, tmp_path):
    (tmp_path / "job.py").write_text(f"import subprocess; [subprocess.run(['{guests / 'threads'}']) for _ in range(2)]")
    run_here([sys.executable, "job.py"])
    assert files_of_runs(tmp_path) == [2]


def test_two_jobs_in_a_terminal(run_here, guests, tmp_path):
    """The program that has the terminal (Jupyter, tmux, an IDE) carries the library too, and is no part of either job."""
    command = f"{guests / 'threads'}; {guests / 'threads'}; true"
    (tmp_path / "terminal.py").write_text(f"import subprocess; subprocess.run(['sh', '-c', {command!r}])")
    run_here([sys.executable, "terminal.py"])
    assert files_of_runs(tmp_path) == [1, 1]
