# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader with batches of known cost, against what the script logs in the same run: the report's waits against
its own timer, replayed step times against an oracle's. How predictions compare with runs under the other setting is a
measurement, not a test: scripts/accuracy.py."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from loader_oracle import LoaderOracle

SCRIPT = Path(__file__).with_name("programs") / "timed_loader.py"
SETTINGS = [(0, None), (1, 2), (2, 1), (2, 2), (2, 4), (4, 2)]  # workers, prefetch factor
BATCH_SIZE, THINK_MS = 4, 10


class Run:
    """One run of the script: what it says itself, and its trace."""

    def __init__(self, injected, workers, prefetch, log):
        assert injected.returncode == 0, injected.stderr
        own = json.loads(injected.stdout)
        self.injected = injected
        self.workers, self.prefetch = workers, prefetch
        self.waits_s, self.steps_s = own["waits"], own["steps"]
        if workers:
            self.oracle = LoaderOracle(log, (workers, prefetch), BATCH_SIZE, THINK_MS / 1e3, own["asked"], own["got"], own["done"])
        self.report = injected.report()

    @property
    def step_ms(self):
        """Over the same batches as the report: all but the first step, which starts the workers."""
        return statistics.mean(self.steps_s) * 1e3

    def predict(self, workers, prefetch):
        """The analyzer's replay of this run under another setting; None if it finds the run too disturbed for one."""
        command = [self.injected.gpuwatch, "predict", self.injected.out, "--json", "--num-workers", workers]
        if prefetch:
            command += ["--prefetch-factor", prefetch]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
        if done.returncode == 2 and "too much for a prediction" in done.stderr:
            return None
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["prediction"]


@pytest.fixture(scope="module")
def runs():
    """Runs made so far, by arguments: a run is expensive and several tests look at the same."""
    return {}


@pytest.fixture
def run(runs, inject, tmp_path):
    def record(workers, prefetch, *options):
        out = Path(tempfile.mkdtemp(dir=tmp_path)) / "run"
        log = out.with_suffix(".log")
        words = [sys.executable, SCRIPT, "--workers", workers, "--batch", BATCH_SIZE, "--log", log]
        words += ["--think-ms", THINK_MS, *options]
        words += ["--prefetch", prefetch] if prefetch else []
        return Run(inject(words, env={"GPUWATCH_OUT": out}, first=True), workers, prefetch, log)

    def make(workers, prefetch, *options):
        key = (workers, prefetch, *options)
        if key not in runs:
            runs[key] = record(*key)
            if runs[key].predict(workers, prefetch) is None:
                runs[key] = record(*key)
        inject.compares(runs[key].injected)
        return runs[key]

    return make


@pytest.mark.parametrize("workers, prefetch", SETTINGS)
def test_wait_agrees_with_the_scripts_own_timer(run, workers, prefetch):
    it = run(workers, prefetch)
    (loader,) = it.report["ranks"][0]["loaders"]
    own = sum(it.waits_s)
    allowed = max(0.005 * own, 0.0002 * len(it.waits_s))
    assert loader["wait_s"] == pytest.approx(own, abs=allowed)
    assert loader["batches"] == len(it.waits_s)


@pytest.mark.parametrize("workers, prefetch", SETTINGS)
def test_configuration_is_exact(run, workers, prefetch):
    (loader,) = run(workers, prefetch).report["ranks"][0]["loaders"]
    assert loader["class"].endswith("DataLoader")
    assert loader["dataset"].endswith("Timed")
    assert loader["num_workers"] == workers
    assert loader["batch_size"] == 4
    assert loader["prefetch_factor"] == prefetch
    assert loader["pin_memory"] is False
    assert loader["persistent_workers"] is False
    line = next(n for n, text in enumerate(SCRIPT.read_text().splitlines(), 1) if "DataLoader(KINDS" in text)
    assert loader["location"].endswith(f"timed_loader.py:{line}")


def bounds_ms(recorded, workers, prefetch):
    """What a step takes by the log: left alone, and disturbed as it was."""
    return [times.step_ms(workers, prefetch) for times in (recorded.oracle.undisturbed, recorded.oracle.disturbed)]


def assert_agrees_with_oracle(recorded, workers, prefetch, tolerance=0.05):
    prediction = recorded.predict(workers, prefetch)
    if prediction is None:
        least, most = bounds_ms(recorded, recorded.workers, recorded.prefetch)
        assert most > 1.05 * least, "no prediction from a recording that was left alone, by its own log"
        pytest.skip(f"the machine made steps of two recordings longer, of the second from {least:.1f} to {most:.1f} ms")
    least, most = bounds_ms(recorded, workers, prefetch)
    assert (1 - tolerance) * least <= prediction["expected"] <= (1 + tolerance) * most


@pytest.mark.parametrize("spread", [0, 0.8])
@pytest.mark.parametrize("workers, prefetch", [(2, 1), (2, 2), (2, 4), (4, 2)])
def test_replay_predicts_other_settings(run, workers, prefetch, spread):
    assert_agrees_with_oracle(run(1, 2, *(("--spread", spread) if spread else ())), workers, prefetch)


@pytest.mark.parametrize("workers, prefetch", SETTINGS[1:])
def test_oracle_agrees_with_the_loader(run, workers, prefetch):
    """PyTorch's DataLoader does what the oracle says of it, else the oracle would prove nothing."""
    it = run(workers, prefetch)
    assert it.oracle.logged.step_ms(workers, prefetch) == pytest.approx(it.step_ms, rel=0.03)


def test_replay_of_the_unchanged_run(run):
    recorded = run(2, 2)
    least, most = bounds_ms(recorded, 2, 2)
    assert_agrees_with_oracle(recorded, 2, 2, tolerance=0.03 if most < 1.05 * least else 0.05)


def test_no_promise_that_the_cores_cannot_keep(run):
    """Loader and training both compute: more workers than cores gain nothing, and none is promised."""
    fetch_ms = 24
    costs = ("--cpu", "--batches", 60, "--service-ms", fetch_ms)
    least_ms = max(THINK_MS, (fetch_ms + THINK_MS) / len(os.sched_getaffinity(0)))  # of CPU time: the script's own clock
    predicted = run(1, 2, *costs).predict(4, 2)
    assert predicted is None or predicted["expected"] >= 0.99 * least_ms
