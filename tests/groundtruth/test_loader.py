# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader with batches of known cost: the report's waits against the script's own timer in the same run, and
replayed step times against runs made with the other setting."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("programs") / "timed_loader.py"
SETTINGS = [(0, None), (1, 2), (2, 1), (2, 2), (2, 4), (4, 2)]  # workers, prefetch factor


class Run:
    """One run of the script: what it says itself, and its trace."""

    def __init__(self, injected, workers, prefetch):
        assert injected.returncode == 0, injected.stderr
        own = json.loads(injected.stdout)
        self.injected = injected
        self.workers, self.prefetch = workers, prefetch
        self.waits_s, self.steps_s = own["waits"], own["steps"]
        self.report = injected.report()

    @property
    def step_ms(self):
        """Over the same batches as the report: all but the first step, which starts the workers."""
        return statistics.mean(self.steps_s) * 1e3

    def predict(self, workers, prefetch):
        """The analyzer's replay of this run under another setting."""
        command = [self.injected.gpuwatch, "predict", self.injected.out, "--json", "--num-workers", workers]
        if prefetch:
            command += ["--prefetch-factor", prefetch]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["prediction"]


@pytest.fixture(scope="module")
def runs():
    """Runs made so far, by arguments: a run is expensive and several tests look at the same."""
    return {}


@pytest.fixture
def run(runs, inject, tmp_path):
    def make(workers, prefetch, *options):
        key = (workers, prefetch, *options)
        if key not in runs:
            words = [sys.executable, SCRIPT, "--workers", workers, *options]
            words += ["--prefetch", prefetch] if prefetch else []
            out = tmp_path / "-".join(str(word) for word in key).replace("/", "_")
            runs[key] = Run(inject(words, env={"GPUWATCH_OUT": out}), workers, prefetch)
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


@pytest.mark.parametrize("spread", [0, 0.8])
@pytest.mark.parametrize("workers, prefetch", [(2, 1), (2, 2), (2, 4), (4, 2)])
def test_replay_predicts_other_settings(run, workers, prefetch, spread):
    options = ("--spread", spread) if spread else ()
    recorded = run(1, 2, *options)
    achieved = run(workers, prefetch, *options)
    predicted = recorded.predict(workers, prefetch)
    assert predicted["expected"] == pytest.approx(achieved.step_ms, rel=0.05)


def test_replay_of_the_unchanged_run(run):
    recorded = run(2, 2)
    assert recorded.predict(2, 2)["expected"] == pytest.approx(recorded.step_ms, rel=0.03)


def test_no_promise_that_the_cores_cannot_keep(run):
    """Loader and training both compute: more workers than cores gain nothing, and none is promised."""
    recorded = run(1, 2, "--cpu", "--batches", 60)
    achieved = run(4, 2, "--cpu", "--batches", 60)
    predicted = recorded.predict(4, 2)
    assert predicted["expected"] >= 0.9 * achieved.step_ms
