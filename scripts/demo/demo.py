#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets gpuwatch try its own suggestions on training jobs: predicted against measured, without an edit of the code.

The jobs are ordinary programs that know nothing of gpuwatch. What no setting can be applied for through the injection (the
loader threads of a CUDA program) is applied by the program's own option.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from make_images import make_images

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))
from disturbance import Disturbance  # noqa: E402

BUILD = Path(os.environ.get("GPUWATCH_BUILD", ROOT / "build/release"))
GPUWATCH = BUILD / "bin/gpuwatch"
DATA = ROOT / "build/demo-data"
RUNS = ROOT / "build/demo-runs"
BUSY = 0.2  # cores that other programs use: below it their effect is within a prediction's interval


@dataclass
class Job:
    """A program; the command line option for each setting of a report that it offers, or what `--apply` calls that setting."""

    name: str
    command: list
    flags: dict = field(default_factory=dict)
    applied: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)

    def change_for(self, fix):
        """(what `gpuwatch run --apply` gets, what the program gets) for a finding's fix; None if there is neither."""
        setting, value = (fix or {}).get("setting"), str((fix or {}).get("value", ""))
        if setting in self.applied:
            return f"{self.applied[setting]}={value}", []
        if setting not in self.flags:
            return None
        flag = self.flags[setting]
        if value.lower() in ("true", "false"):
            return "", [flag] if value.lower() == "true" else []
        return "", [flag, value]


def image_job(python, environment, image_size, width):
    return Job(
        name="train",
        command=[
            str(python), str(ROOT / "scripts/demo/train.py"), str(DATA), "--checkpoint", str(RUNS / "model.pt"),
            "--image-size", str(image_size), "--width", str(width),
        ],
        environment=environment,
    )  # fmt: skip


def text_job(python, environment):
    return Job(
        name="train-text",
        command=[str(python), str(ROOT / "scripts/demo/train_text.py"), str(ROOT / "scripts")],
        applied={"torch.set_float32_matmul_precision": "float32_matmul_precision"},
        environment=environment,
    )


def trainer_job():
    return Job(
        name="trainer",
        command=[str(BUILD / "bin/workloads/trainer")],
        flags={"num_workers": "--workers", "pin_memory": "--pin"},
        environment={"LD_LIBRARY_PATH": str(BUILD / "lib/sim")},
    )


def heading(text):
    print(f"\n=== {text}\n", flush=True)


def shown(path_or_argument):
    """Paths relative to the checkout are shorter to read."""
    return str(path_or_argument).replace(f"{ROOT}/", "")


@dataclass
class Recorded:
    report: dict
    neighbors: float  # cores that other programs and other virtual machines used meanwhile

    @property
    def is_disturbed(self):
        return self.neighbors >= BUSY


def environment_of(job):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPUWATCH_")}
    # What came of predictions in a demo says nothing about the user's jobs.
    return {**inherited, "GPUWATCH_KEEP": "0", **job.environment}


def shown_command(words):
    return " ".join(shown(word) for word in words)


def record(job, run_dir, apply="", extra=()):
    """Runs the job under gpuwatch as a user would; its report comes at its end."""
    command = [*(["--apply", apply] if apply else []), *job.command, *extra]
    heading(f"gpuwatch run {shown_command(command)}")
    disturbance = Disturbance()
    subprocess.run([GPUWATCH, "run", "-o", run_dir, *command], check=True, env=environment_of(job))
    taken = disturbance.so_far()
    text = subprocess.run([GPUWATCH, "analyze", run_dir, "--json"], check=True, capture_output=True, text=True).stdout
    recorded = Recorded(json.loads(text), taken.foreign + taken.stolen)
    if recorded.is_disturbed:
        print(f"\nThis machine is busy: other programs used {recorded.neighbors:.1f} of {os.cpu_count()} cores during this run.")
    return recorded


def first_change(job, report):
    """The first finding that can be applied to the job, and how; (None, None) if there is none."""
    for finding in report["findings"]:
        change = job.change_for(finding.get("fix"))
        if change is not None and finding["severity"] != "info":
            return finding, change
    return None, None


def measured(report, metric):
    steps = report["ranks"][0]["steps"]
    return steps["mean_ms"] if metric == "step_ms" else steps["samples_per_s"]


def prediction_words(finding, unit, suffix):
    prediction = finding["prediction"]
    if prediction:
        low, expected, high = (prediction[key] for key in ("low", "expected", "high"))
        return f"{expected:.1f} {unit} ({low:.1f}-{high:.1f} {unit}){suffix}"
    if finding.get("ceiling"):
        return f"up to {finding['ceiling']['speedup']:.1f}x"
    return "none"


def compare(finding, before, after):
    """What the finding predicted, and what the second run measured."""
    fix, prediction = finding["fix"], finding["prediction"]
    metric = prediction["metric"] if prediction else "step_ms"
    unit, suffix = ("ms", " a step") if metric == "step_ms" else ("samples/s", "")
    now, achieved = measured(before.report, metric), measured(after.report, metric)
    speedup = now / achieved if metric == "step_ms" else achieved / now
    heading("Predicted and achieved")
    print(f"  change      {fix['setting']}={fix['value']}  ({finding['id']})")
    print(f"  before      {now:.1f} {unit}{suffix}")
    print(f"  predicted   {prediction_words(finding, unit, suffix)}")
    print(f"  achieved    {achieved:.1f} {unit}{suffix}, {speedup:.2f}x")
    if prediction:
        is_inside = prediction["low"] <= achieved <= prediction["high"]
        print(f"  result      {'inside' if is_inside else 'outside'} the predicted interval")
    if before.is_disturbed or after.is_disturbed:
        print(
            f"\nOther programs used {before.neighbors:.1f} cores during the first run and {after.neighbors:.1f} during the second.\n"
            "The prediction assumes that these neighbors stay; run the demo on an idle machine for a fair comparison."
        )


def fresh(name):
    run_dir = RUNS / name
    shutil.rmtree(run_dir, ignore_errors=True)
    return run_dir


def try_settings(job):
    """gpuwatch runs the job as it is and with the settings that it proposes, and compares; then the report of the job as it is."""
    run_dir = fresh(f"{job.name}-tried")
    heading(f"gpuwatch try {shown_command(job.command)}")
    subprocess.run([GPUWATCH, "try", "-o", run_dir, "--changes", "2", *job.command], check=True, env=environment_of(job))
    heading(f"gpuwatch analyze {shown(run_dir / '1')}")
    subprocess.run([GPUWATCH, "analyze", run_dir / "1"], check=True)


def demonstrate(job):
    """The job as it is, and with its first suggestion."""
    before = record(job, fresh(f"{job.name}-1"))
    finding, change = first_change(job, before.report)
    if finding is None:
        print("\nNo finding names a setting that can be applied here.")
        return
    apply, extra = change
    after = record(job, fresh(f"{job.name}-2"), apply, extra)
    compare(finding, before, after)


def device_demo(python, environment):
    """An input-bound job, then a compute-bound one, with the CUDA build of PyTorch as a user installs it."""
    try_settings(image_job(python, environment, image_size=224, width=64))
    heading("A second job: its data is in GPU memory, so the GPU computes all the time")
    demonstrate(text_job(python, environment))


def cpu_demo():
    try_settings(image_job(sys.executable, {}, image_size=128, width=8))
    trainer = trainer_job()
    if not Path(trainer.command[0]).exists():
        print("\nThe part on the simulated device is skipped: it needs nvcc, which scripts/setup.sh installs.")
        return
    heading("A second job, on a simulated device: a CUDA program compiled by nvcc, with its own loader threads")
    demonstrate(trainer)


def simulated_device():
    """(Python with the CUDA build of PyTorch, environment that selects the simulated device), or None. Downloads PyTorch if
    it is missing."""
    python = Path(os.environ.get("GPUWATCH_TORCH_CUDA", ROOT / "build/torch-cuda")) / "bin/python"
    if not (BUILD / "lib/sim").exists():
        return print("The simulated device is not built: it needs nvcc, which scripts/setup.sh installs.")
    if subprocess.run([ROOT / "scripts/torch_cuda.sh"]).returncode or not python.exists():
        return print("The CUDA build of PyTorch could not be installed.")
    return python, {"LD_LIBRARY_PATH": str(BUILD / "lib/sim"), "GWSIM_CONFIG": str(ROOT / "cuda/sim/devices/a100.conf")}


def main():
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu"], default="auto", help="cpu: train on the CPU, download nothing")
    device = parser.parse_args().device
    RUNS.mkdir(parents=True, exist_ok=True)
    if make_images(DATA, count=512):
        print(f"Created the data set: 512 JPEG files (50 MB) in {shown(DATA)}.")
    if device == "auto" and torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} trains on {torch.cuda.get_device_name()}.")
        device_demo(sys.executable, {})
    elif device == "auto" and (simulated := simulated_device()):
        print(
            "No GPU found: the unmodified CUDA build of PyTorch trains on a simulated A100.\n"
            "Kernel times come from a model of the A100, and losses are meaningless."
        )
        device_demo(*simulated)
    else:
        print(f"PyTorch {torch.__version__} trains on the CPU.")
        cpu_demo()


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError as error:
        sys.exit(f"demo: {error.filename} does not exist; run `make build`")
    except subprocess.CalledProcessError as error:
        command = " ".join(shown(word) for word in error.cmd)
        detail = f"\n{error.stderr.strip()}" if error.stderr else ""
        sys.exit(f"demo: `{command}` failed with status {error.returncode}{detail}")
