#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: run a job under gpuwatch, do what the report's first finding says, run again, compare.

Nothing here helps gpuwatch: the jobs are ordinary programs, the only thing added is LD_PRELOAD, and what is changed
between the two runs comes out of the first report.
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
BUILD = Path(os.environ.get("GPUWATCH_BUILD", ROOT / "build/release"))
GPUWATCH = BUILD / "bin/gpuwatch"
DATA = ROOT / "build/demo-data"
RUNS = ROOT / "build/demo-runs"


@dataclass
class Job:
    """A program, and how the settings that findings name are spelled on its command line."""

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
    """Paths below the checkout read better without it."""
    return str(path_or_argument).replace(f"{ROOT}/", "")


def record(job, extra, run_dir):
    """Runs the job under gpuwatch, exactly as a user would, and returns gpuwatch's report of it."""
    library = subprocess.run([GPUWATCH, "lib"], check=True, capture_output=True, text=True).stdout.strip()
    command = job.command + extra
    heading(f"LD_PRELOAD={shown(library)} {' '.join(shown(word) for word in command)}")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPUWATCH_")}
    environment = {**inherited, **job.environment, "LD_PRELOAD": library, "GPUWATCH_OUT": str(run_dir)}
    subprocess.run(command, check=True, env=environment)
    heading(f"gpuwatch analyze {shown(run_dir)}")
    subprocess.run([GPUWATCH, "analyze", run_dir], check=True)
    text = subprocess.run([GPUWATCH, "analyze", run_dir, "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(text)


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


def compare(finding, before, after):
    """One row: what the finding promised, and what the second run measured."""
    fix = finding["fix"]
    prediction = finding["prediction"]
    metric = prediction["metric"] if prediction else "step_ms"
    unit = "ms a step" if metric == "step_ms" else "samples/s"
    now, achieved = measured(before, metric), measured(after, metric)
    gain = now / achieved if metric == "step_ms" else achieved / now
    heading("Predicted against achieved")
    print(f"  change      {fix['setting']}={fix['value']}  ({finding['id']})")
    print(f"  before      {now:.1f} {unit}")
    if prediction:
        low, expected, high = (prediction[key] for key in ("low", "expected", "high"))
        print(f"  predicted   {expected:.1f} {unit} ({low:.1f} to {high:.1f})")
    elif finding.get("ceiling"):
        print(f"  predicted   at most {finding['ceiling']['speedup']:.2f} times faster")
    print(f"  achieved    {achieved:.1f} {unit}, {gain:.2f} times as fast")
    if prediction:
        print(f"  inside the predicted interval: {'yes' if low <= achieved <= high else 'no'}")


def demonstrate(job):
    runs = [RUNS / f"{job.name}-{number}" for number in (1, 2)]
    for run_dir in runs:
        shutil.rmtree(run_dir, ignore_errors=True)
    before = record(job, [], runs[0])
    finding, arguments = first_applicable(job, before)
    if finding is None:
        print(f"\nNo finding names a setting of this program; nothing to change. ({before['verdict']['sentence']})")
        return
    after = record(job, arguments, runs[1])
    compare(finding, before, after)


def device_demo(python, environment):
    """A job that waits for its input, then one that the device limits: PyTorch's CUDA build, as the user has it."""
    demonstrate(image_job(python, environment, image_size=224, width=64))
    heading("A second job, whose data lie in the device's memory")
    demonstrate(text_job(python, environment))


def cpu_demo():
    demonstrate(image_job(sys.executable, {}, image_size=128, width=8))
    trainer = trainer_job()
    if not Path(trainer.command[0]).exists():
        print("\nThe part on the simulated device is left out: it needs nvcc (scripts/setup.sh installs it).")
        return
    heading("The device part, on a simulated GPU: a CUDA program with its own loader threads, compiled by nvcc")
    demonstrate(trainer)


def simulated_device():
    """The Python with PyTorch's CUDA build, fetched if it is not there, and what makes it find the simulated device. None
    where it cannot be had."""
    python = Path(os.environ.get("GPUWATCH_TORCH_CUDA", ROOT / "build/torch-cuda")) / "bin/python"
    if not (BUILD / "lib/sim").exists():
        return print("No simulated device: building it needs nvcc (scripts/setup.sh installs it).")
    if subprocess.run([ROOT / "scripts/torch_cuda.sh"]).returncode or not python.exists():
        return print("No CUDA build of PyTorch to be had.")
    return python, {"LD_LIBRARY_PATH": str(BUILD / "lib/sim"), "GWSIM_CONFIG": str(ROOT / "cuda/sim/devices/a100.conf")}


def main():
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu"], default="auto", help="cpu: nothing is downloaded")
    device = parser.parse_args().device
    RUNS.mkdir(parents=True, exist_ok=True)
    if make_images(DATA, count=512):
        print(f"Drew 512 JPEG files (50 MB) into {shown(DATA)}.")
    if device == "auto" and torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} computes on {torch.cuda.get_device_name()}.")
        device_demo(sys.executable, {})
    elif device == "auto" and (simulated := simulated_device()):
        print("No GPU here: PyTorch's CUDA build, unmodified, computes on a simulated A100. Times are those of its model; losses mean nothing.")
        device_demo(*simulated)
    else:
        print(f"PyTorch {torch.__version__} computes on the CPU.")
        cpu_demo()


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError as error:
        sys.exit(f"demo: {error.filename} is missing: run `make build`")
    except subprocess.CalledProcessError as error:
        command = " ".join(shown(word) for word in error.cmd)
        detail = f"\n{error.stderr.strip()}" if error.stderr else ""
        sys.exit(f"demo: `{command}` ended with status {error.returncode}{detail}")
