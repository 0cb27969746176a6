# SPDX-License-Identifier: Apache-2.0
"""What tests on real processes share: where the build is, and how to run a program under injection.

    def test_counts_steps(inject):
        run = inject([sys.executable, "train.py"])
        assert run.returncode == 0
        assert run.report()["ranks"][0]["steps"]["count"] == 40

`make test` names the build in GPUWATCH_BUILD; pytest by hand uses build/release. What is not built is a failure, never
a reason to skip: a test that silently does not run proves nothing.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import FIRST, can_run
from disturbance import STOLEN_SHARE, TICK_S, Disturbance, Taken
from report_promises import broken_promises

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure(config):
    config.addinivalue_line("markers", "beside_others: a file that compares no times; run_tests runs several such at once")


def existing(path):
    if not path.exists():
        pytest.fail(f"{path} does not exist: run `make build`", pytrace=False)
    return path


@pytest.fixture(scope="session")
def build():
    """The build folder under test."""
    return existing(Path(os.environ.get("GPUWATCH_BUILD", ROOT / "build/release")).resolve())


@pytest.fixture(scope="session")
def libgpuwatch(build):
    """The injected library."""
    return existing(build / "lib/libgpuwatch.so")


@pytest.fixture(scope="session")
def gpuwatch(build):
    """The analyzer's program."""
    return existing(build / "bin/gpuwatch")


@pytest.fixture(scope="session")
def sim_lib(build):
    """Folder with the simulated device's stand-ins, for LD_LIBRARY_PATH."""
    return existing(build / "lib/sim")


@pytest.fixture(scope="session")
def workloads(build):
    """Folder with the CUDA programs that nvcc built."""
    return existing(build / "bin/workloads")


@pytest.fixture
def run_dir(tmp_path):
    """Where traces of this test go (GPUWATCH_OUT). Not created: that is the recorder's work."""
    return tmp_path / "run"


@dataclass
class InjectedRun:
    """A finished process, and the analyzer's view of what it left."""

    returncode: int
    stdout: str
    stderr: str
    out: Path
    gpuwatch: Path
    taken: Taken  # meanwhile, by others on the machine that the tests run on

    @property
    def traces(self):
        return sorted(self.out.glob("*.gwt")) if self.out.is_dir() else []

    @property
    def excused(self):
        """Findings that are true of the machine that the tests run on: its host took what they say, and did so while the job ran."""
        return {finding["id"] for finding in self.report()["findings"] if finding["id"] == "cpu-steal" and self.was_stolen(finding)}

    def was_stolen(self, finding):
        (claimed_s,) = (fact["value"] for fact in finding["evidence"] if (fact["what"], fact["unit"]) == ("steal time", "s"))
        return claimed_s <= self.taken.stolen_s + TICK_S * os.cpu_count()

    def analyze(self, *options, check=True):
        """Runs `gpuwatch analyze` on the run's directory; check=False to look at its failures."""
        command = [str(self.gpuwatch), "analyze", str(self.out), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if check:
            assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}"
        return done

    def report(self, *options):
        """The JSON report, which must keep what every report promises."""
        report = json.loads(self.analyze("--json", *options).stdout)
        assert not broken_promises(report)
        return report


def clean_environment():
    """The test's own environment without any gpuwatch setting that the developer may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("GPUWATCH_", "GWSIM_", "LD_"))}


@pytest.fixture
def injected_environment(libgpuwatch, run_dir):
    """For tests that start and stop processes themselves: the environment `inject` uses."""
    return {**clean_environment(), "LD_PRELOAD": str(libgpuwatch), "GPUWATCH_OUT": str(run_dir)}


@pytest.fixture(scope="session")
def first_words():
    return FIRST if can_run([*FIRST, "true"]) else ()


@pytest.fixture
def inject(request, injected_environment, first_words, gpuwatch, run_dir):
    """inject(command, env={...}, sim=False, first=False, timeout=120, cwd=None): runs a command under injection to its end.

    With sim=True the command finds the simulated device's libraries first. first=True is for tests that compare times: the
    command gets the CPU first, and the test's report says what the machine's host took meanwhile (scripts/run_tests.py).
    Tests that remember a run for others call inject.compares(run).
    """

    def compares(run):
        request.node.user_properties.append((STOLEN_SHARE, run.taken.stolen))

    def run(command, env=None, sim=False, first=False, timeout=120, cwd=None):
        environment = dict(injected_environment)
        if sim:
            environment["LD_LIBRARY_PATH"] = str(request.getfixturevalue("sim_lib"))
        environment.update({name: str(value) for name, value in (env or {}).items()})
        words = [*(first_words if first else ()), *(str(word) for word in command)]
        disturbance = Disturbance()
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=timeout, cwd=cwd)
        taken = disturbance.so_far()
        result = InjectedRun(done.returncode, done.stdout, done.stderr, Path(environment["GPUWATCH_OUT"]), gpuwatch, taken)
        if first:
            compares(result)
        return result

    run.compares = compares
    return run
