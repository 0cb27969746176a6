#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a training job under gpuwatch, applies the first suggestion of the report, runs it again and compares.

The jobs are ordinary programs that know nothing of gpuwatch. The only addition is LD_PRELOAD, and the change between the
two runs is taken from the first report.
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
    """A program, and the command line option for each setting that a finding may name."""

    name: str
    command: list
    flags: dict
    environment: dict = field(default_factory=dict)

    def arguments_for(self, fix):
        """The command line arguments that apply a finding's fix, or None if the program has no such setting."""
        if not fix or fix.get("setting") not in self.flags:
            return None
        flag = self.flags[fix["setting"]]
        value = str(fix.get("value", "")).lower()
        if value in ("true", "false"):
            return [flag] if value == "true" else []
        return [flag, value]


def image_job(python, environment, image_size, width):
    return Job(
        name="train",
        command=[
            str(python), str(ROOT / "scripts/demo/train.py"), str(DATA), "--checkpoint", str(RUNS / "model.pt"),
            "--image-size", str(image_size), "--width", str(width),
        ],
        flags={
            "num_workers": "--workers",
            "prefetch_factor": "--prefetch",
            "pin_memory": "--pin-memory",
            "persistent_workers": "--persistent-workers",
            "batch_size": "--batch-size",
        },
        environment=environment,
    )  # fmt: skip


def text_job(python, environment):
    return Job(
        name="train-text",
        command=[str(python), str(ROOT / "scripts/demo/train_text.py"), str(ROOT / "scripts")],
        flags={"torch.set_float32_matmul_precision": "--matmul-precision", "batch_size": "--batch-size"},
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


def record(job, extra, run_dir):
    """Runs the job under gpuwatch as a user would, then prints gpuwatch's report of it."""
    library = subprocess.run([GPUWATCH, "lib"], check=True, capture_output=True, text=True).stdout.strip()
    command = job.command + extra
    heading(f"LD_PRELOAD={shown(library)} {' '.join(shown(word) for word in command)}")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPUWATCH_")}
    environment = {**inherited, **job.environment, "LD_PRELOAD": library, "GPUWATCH_OUT": str(run_dir)}
    disturbance = Disturbance()
    subprocess.run(command, check=True, env=environment)
    taken = disturbance.so_far()
    heading(f"gpuwatch analyze {shown(run_dir)}")
    subprocess.run([GPUWATCH, "analyze", run_dir], check=True)
    text = subprocess.run([GPUWATCH, "analyze", run_dir, "--json"], check=True, capture_output=True, text=True).stdout
    recorded = Recorded(json.loads(text), taken.foreign + taken.stolen)
    if recorded.is_disturbed:
        print(f"\nThis machine is busy: other programs used {recorded.neighbors:.1f} of {os.cpu_count()} cores during this run.")
    return recorded


def first_applicable(job, report):
    """The first finding with a setting that the program offers: it, and the arguments that apply it."""
    for finding in report["findings"]:
        arguments = job.arguments_for(finding.get("fix"))
        if arguments is not None and finding["severity"] != "info":
            return finding, arguments
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


def demonstrate(job):
    runs = [RUNS / f"{job.name}-{number}" for number in (1, 2)]
    for run_dir in runs:
        shutil.rmtree(run_dir, ignore_errors=True)
    before = record(job, [], runs[0])
    finding, arguments = first_applicable(job, before.report)
    if finding is None:
        print("\nNo finding names a setting that this program offers, so there is nothing to apply.")
        return
    after = record(job, arguments, runs[1])
    compare(finding, before, after)


def device_demo(python, environment):
    """An input-bound job, then a compute-bound one, with the CUDA build of PyTorch as a user installs it."""
    demonstrate(image_job(python, environment, image_size=224, width=64))
    heading("A second job: its data is in GPU memory, so the GPU computes all the time")
    demonstrate(text_job(python, environment))


def cpu_demo():
    demonstrate(image_job(sys.executable, {}, image_size=128, width=8))
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
