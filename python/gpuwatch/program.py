# SPDX-License-Identifier: Apache-2.0
"""The installed program gpuwatch: where it is, and what it reports on a trace."""

import importlib.metadata
import json
import os
import shutil
import subprocess
from pathlib import Path

from gpuwatch.errors import Error, ProgramNotFound, TraceError, UnknownSchema

SCHEMA = "gpuwatch.report.v1"
DISTRIBUTION = "gpuwatch-profiler"
WRONG_INPUT = 2  # exit status
SPEAKS = "gpuwatch: "  # begins each of the program's own sentences


def installed_program():
    """The one of the wheel that this package came with, or None."""
    here = Path(__file__).resolve().parent
    try:
        files = importlib.metadata.distribution(DISTRIBUTION).files or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    listed = [Path(file.locate()) for file in files if file.name == "gpuwatch" and file.parent.name == "bin"]
    # `pip install --target` moves the program without a note of it.
    for program in [*listed, here.parent / "bin/gpuwatch"]:
        if program.is_file() and os.access(program, os.X_OK):
            return str(program.resolve())
    return None


def find_program(program=None):
    """The path of the program: the one given, else the wheel's, else the one on the PATH."""
    if program is not None:
        found = shutil.which(os.fspath(program))
        if not found:
            raise ProgramNotFound(f"{os.fspath(program)} cannot be run; name the command gpuwatch, or leave program= out")
        return found
    found = installed_program() or shutil.which("gpuwatch")
    if not found:
        raise ProgramNotFound("the command gpuwatch is not with this package and not on the PATH; install the wheel, or name it: program=...")
    return found


def check_end(done, program):
    """Raises what the program's exit status and stderr say."""
    if done.returncode == 0:
        return
    said = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode == WRONG_INPUT and said.startswith(SPEAKS):
        raise TraceError(said[len(SPEAKS) :])
    end = f"exit status {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
    last = f": {said.splitlines()[-1]}" if said else ""
    raise Error(f"{program} ended with {end} instead of a report{last}; is it the command of {DISTRIBUTION}, in this version?")


def report_of(traces, program=None, step_times=False):
    """The JSON report of the program on these traces (none: the newest run here), as a dict."""
    program = find_program(program)
    options = ["--json", *(["--step-times"] if step_times else [])]
    try:
        done = subprocess.run([program, "analyze", *options, "--", *map(os.fspath, traces)], capture_output=True)
    except OSError as error:
        raise ProgramNotFound(f"{program} could not be started: {error.strerror}; install the wheel for this machine") from error
    check_end(done, program)
    try:
        report = json.loads(done.stdout)
        schema = report["schema"]
    except (ValueError, TypeError, KeyError) as error:
        raise UnknownSchema(f"{program} did not print a report; is it the command of {DISTRIBUTION}?") from error
    if schema != SCHEMA:
        raise UnknownSchema(f"{program} writes reports of schema {schema!r}, this package reads {SCHEMA!r}; install both from one wheel")
    return report
