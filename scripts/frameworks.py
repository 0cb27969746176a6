#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs training programs of real frameworks with the library preloaded, and writes docs/frameworks.md.

Each program of tests/frameworks/programs times its own data stalls. The trace must agree within 0.5% or 0.2 ms a batch, and
the report must name the framework, the loader and its line. The packages (about 4 GB on disk) go to build/frameworks;
--python names an environment that has them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/frameworks"), str(ROOT / "tests/python")]
import cases  # noqa: E402
import raw_trace  # noqa: E402

BUILD = Path(os.environ.get("GPUWATCH_BUILD", ROOT / "build/release")).resolve()
HOME = ROOT / "build/frameworks"
KNOWN = HOME / "results.json"  # of the last full run, updated by later partial runs
PROGRAMS = ROOT / "tests/frameworks/programs"
TORCH = "torch==2.13.0"
PACKAGES = [
    "lightning", "accelerate", "transformers", "fastai", "torchdata", "webdataset", "torch_geometric", "monai",
    "mosaicml-streaming", "ray[data]", "tensorflow-cpu", "keras", "jax", "pillow",
]  # fmt: skip
# These need torchvision, whose wheel on PyPI is for CUDA. Only two programs may find it.
VISION = ["torchvision", "timm"]
RELATIVE, A_BATCH_MS = 0.005, 0.2


def make_environment():
    """The Python with the packages. Downloads about 1.2 GB the first time."""
    python = HOME / "venv/bin/python"
    if not (HOME / "done").exists():
        print(f"frameworks: installing {len(PACKAGES) + len(VISION) + 1} packages into build/frameworks: 1.2 GB to download, 4 GB on disk", flush=True)
        subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
        pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-compile"]
        first = subprocess.run([*pip, "--index-url", "https://download.pytorch.org/whl/cpu", "--timeout", "10", "--retries", "0", TORCH], capture_output=True)
        if first.returncode:
            subprocess.run([*pip, TORCH], check=True)
        subprocess.run([*pip, TORCH, *PACKAGES], check=True)
        subprocess.run([*pip, "--no-deps", "--target", HOME / "vision/site-packages", *VISION], check=True)
        (HOME / "done").touch()
    return python


def run_program(python, vision, program, arguments, environment, out):
    with_vision = program in ("train_timm.py", "train_streaming.py")
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GPUWATCH_", "LD_"))},
        "LD_PRELOAD": str(BUILD / "lib/libgpuwatch.so"), "GPUWATCH_OUT": str(out), "HF_HUB_OFFLINE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        **({"PYTHONPATH": str(vision)} if with_vision else {}), **environment,
    }  # fmt: skip
    words = [str(python), str(PROGRAMS / program), *arguments]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=300)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise AssertionError(f"ended with {done.returncode}: {last}")
    return json.loads(done.stdout.splitlines()[-1])


def report_of(out):
    command = [BUILD / "bin/gpuwatch", "analyze", out, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def seen_ns(calls, own, is_inside):
    """The traced time within the program's own spans, or all of it where those lie inside the waits."""
    if is_inside:
        return sum(call.end_ns - call.begin_ns for call in calls if not call.failed and call.op_class == "LoaderNext")
    total = 0
    for began, ended in own:
        total += sum(max(0, min(call.end_ns, ended) - max(call.begin_ns, began)) for call in calls)
    return total


class Result:
    def __init__(self, case, out, own):
        trace, report = raw_trace.read_run(out), report_of(out)
        loaders = [loader for rank in report["ranks"] for loader in rank["loaders"] if loader["batches"]]
        assert loaders, "no loader in the report"
        self.loader = max(loaders, key=lambda loader: loader["batches"])
        self.report = report
        calls = [call for kind in ("LoaderNext", "LoaderStart") for call in trace.calls(kind)]
        if case.starts_apart:
            starts = [call.begin_ns for call in trace.calls("LoaderStart")]
            own["waits"] = [span for span in own["waits"] if not any(span[0] <= start <= span[1] for start in starts)]
        self.own_ms = sum(ended - began for began, ended in own["waits"]) / 1e6
        self.seen_ms = seen_ns(calls, own["waits"], case.is_inside) / 1e6
        self.batches = max(1, self.loader["batches"])

    @property
    def relative(self):
        return self.seen_ms / self.own_ms - 1

    @property
    def a_batch_ms(self):
        return (self.seen_ms - self.own_ms) / self.batches

    def check(self, case, own):
        assert self.loader["framework"] == case.framework, f"framework {self.loader['framework']}"
        assert self.loader["class"] == case.loader, f"class {self.loader['class']}"
        assert (self.loader["num_workers"] if case.workers >= 0 else -1) == case.workers, f"num_workers {self.loader['num_workers']}"
        if case.mark:
            lines = (PROGRAMS / case.program).read_text().splitlines()
            line = next(number for number, text in enumerate(lines, 1) if text.endswith(case.mark))
            assert self.loader["location"].endswith(f"/{case.program}:{line}"), f"location {self.loader['location']}"
        steps = sum(rank["steps"]["count"] for rank in self.report["ranks"])
        assert own["steps"] <= self.batches <= own["steps"] + 3, f"{self.batches} batches in {own['steps']} steps"
        assert steps > 0, "no steps"
        agrees = abs(self.relative) <= RELATIVE or abs(self.a_batch_ms) <= A_BATCH_MS
        assert agrees or not case.is_exact, f"waits differ by {100 * self.relative:.2f}%, {self.a_batch_ms:.3f} ms a batch"

    def as_row(self):
        return {
            "relative": self.relative, "a_batch_ms": self.a_batch_ms, "class": self.loader["class"],
            "framework": self.loader["framework"], "fix": self.fix(),
        }  # fmt: skip

    def fix(self):
        for finding in self.report["findings"]:
            if finding["severity"] != "info" and finding["fix"]["summary"]:
                return finding["fix"]["summary"]
        return ""


def run_case(python, vision, case):
    out = Path(tempfile.mkdtemp(prefix="gpuwatch-frameworks-"))
    try:
        own = run_program(python, vision, case.program, case.arguments, case.environment, out)
        result = Result(case, out, own)
        result.check(case, own)
        return result, ""
    except (AssertionError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return locals().get("result"), str(error)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def run_without_loader(python, vision, program):
    out = Path(tempfile.mkdtemp(prefix="gpuwatch-frameworks-"))
    try:
        own = run_program(python, vision, program, (), {}, out)
        report = report_of(out)
        (rank,) = report["ranks"]
        assert rank["loaders"] == [], "the report claims a loader"
        assert rank["steps"]["count"] == own["steps"], f"{rank['steps']['count']} steps"
        return report["verdict"]["sentence"], ""
    except (AssertionError, ValueError) as error:
        return "", str(error)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def version(python, package, vision):
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    environment = {**os.environ, "PYTHONPATH": str(vision)}
    return subprocess.run([python, "-c", code], capture_output=True, text=True, env=environment).stdout.strip()


def page(known, torch_version):
    lines = [
        "# Frameworks", "",
        "Written by `make frameworks` (scripts/frameworks.py), which runs tests/frameworks/programs with the real packages; do not edit.", "",
        f"Each program times its own data stalls. \"Agreement\" compares the trace with that timer (limit: 0.5% or {A_BATCH_MS} ms a batch for",
        f"everything on PyTorch's DataLoader). PyTorch {torch_version}, CPU. \"First fix\" is the fix of the first finding, in the framework's words.", "",
        "| framework | package | workers | loader in the report | visible | agreement | first fix | note |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for case in cases.CASES:
        row, failure = known[case.key], f" (failed: {known[case.key]['error']})" if known[case.key]["error"] else ""
        agreement = f"{100 * row['relative']:+.2f}%, {row['a_batch_ms']:+.3f} ms a batch" if "relative" in row else "not measured"
        workers = case.workers if case.workers >= 0 else ""
        loader = f"`{row['class']}` of {row['framework']}" if "class" in row else ""
        lines.append(f"| {case.name} | {case.package} {row['version']} | {workers} | {loader} | {case.seen} | {agreement}{failure} | {row.get('fix', '')} | {case.note} |")
    lines += ["", "## Programs without a loader", "", "The report claims no loader. Its verdict:", "", "| program | verdict |", "|---|---|"]
    lines += [f"| {name} | {known[name]['sentence'] or 'failed: ' + known[name]['error']} |" for name in cases.NO_LOADER]
    lines += ["", (ROOT / "tests/frameworks/limits.md").read_text().rstrip(), ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, help="a Python that has the packages (default: build/frameworks, installed if missing)")
    parser.add_argument("--vision", type=Path, default=HOME / "vision/site-packages", help="folder with torchvision and timm")
    parser.add_argument("--only", help="run only cases whose name contains this; keep the results of the others")
    options = parser.parse_args()
    python = options.python or make_environment()
    KNOWN.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() and options.only else {}
    rows, without, failed = [], [], 0
    for case in cases.CASES:
        if options.only and options.only not in case.name:
            continue
        result, error = run_case(python, options.vision, case)
        failed += bool(error)
        measured = f"{100 * result.relative:+.2f}%, {result.a_batch_ms:+.3f} ms a batch" if result else ""
        print(f"{'FAIL' if error else 'ok  '} {case.name} {' '.join(case.arguments)}: {measured} {error}", flush=True)
        rows.append(case)
        known[case.key] = {"version": version(python, case.package, options.vision), "error": error, **(result.as_row() if result else {})}
        KNOWN.write_text(json.dumps(known))
    for name, program in cases.NO_LOADER.items():
        if options.only and options.only not in name:
            continue
        sentence, error = run_without_loader(python, options.vision, program)
        failed += bool(error)
        print(f"{'FAIL' if error else 'ok  '} {name}: {sentence} {error}", flush=True)
        without.append(name)
        known[name] = {"sentence": sentence, "error": error}
        KNOWN.write_text(json.dumps(known))
    total = len(rows) + len(without)
    print(f"{total - failed} passed, {failed} failed", flush=True)
    if all(key in known for key in [*(case.key for case in cases.CASES), *cases.NO_LOADER]):
        (ROOT / "docs/frameworks.md").write_text(page(known, version(python, "torch", options.vision)))
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
