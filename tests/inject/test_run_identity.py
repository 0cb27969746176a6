# SPDX-License-Identifier: Apache-2.0
"""Where traces go: by what the process was started with, whatever it does to that later."""

import subprocess

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


@pytest.mark.parametrize("out", ["run", "./run", None])
def test_title_over_arguments_and_environment(run_here, guests, tmp_path, out):
    import raw_trace

    run_here([guests / "title", "a long argument, so that a title fits"], {"GPUWATCH_OUT": out} if out else None)
    (directory,) = [tmp_path / out] if out else tmp_path.glob("gpuwatch-title-*")
    (process,) = raw_trace.read_run(directory).tables("Process")
    assert process["script"] == "title"
