#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures on a machine with a GPU what CI cannot, and writes the figures as JSON.

    gpu_acceptance.sh [FOLDER]         results go to FOLDER (default docs/gpu-results)
    gpu_acceptance.sh --simulated      rehearsal on the simulated device
    gpu_acceptance.sh --render         writes docs/gpu-results/README.md from the results there
    gpu_acceptance.sh --bundle FOLDER  copies the parts of the build that a bare machine needs (then GPUWATCH_BUILD=FOLDER)

Needs the build, and PyTorch for half of the questions; no compiler, no network. Every section is a separate process with a
time limit, and the results are written after each. Exit status: 0 no section failed, 1 a section failed, 2 nothing
could be measured. docs/gpu-acceptance.md says how to read the results.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import abroad_sections as abroad
import sections as nvcc
import torch_sections as torch
from rig import ROOT, Failed, NotRun, Rig, device_name, die_with_parent

RESULTS = ROOT / "docs/gpu-results"
SCHEMA = "gpuwatch.gpu-acceptance.v1"


@dataclass
class Section:
    id: str
    question: str
    limit_s: int
    parts: dict  # name -> function(rig) that yields figures


def torch_cases(*cases):
    return {f"torch: {case}": torch.case_part(case) for case in cases}


# Most valuable first: an interrupted run loses the last ones.
SECTIONS = [
    Section("environment", "What does this machine have, and do all sources work?", 90, {
        "machine": nvcc.machine, "sources": nvcc.sources, "PyTorch": torch.framework, "doctor": nvcc.doctor}),
    Section("launches", "Is each launch matched to its kernel, no record dropped, and does each nanosecond have one cause?", 60, {
        "workloads": nvcc.whole_workloads, "kernels counted": nvcc.counted_kernels}),
    Section("cost-calls", "What is the overhead for a call, and for a step of many tiny kernels?", 90, {
        "back to back": nvcc.calls_back_to_back, "as dispatched": nvcc.calls_as_dispatched}),
    Section("findings", "Does the report name the cause of a stall, and does its prediction come true?", 60, {
        case: nvcc.case_part(case) for case in nvcc.CASES}),
    Section("timestamps", "Do recorded device times agree with CUDA events and with the host's clock?", 40, {
        "event pairs": nvcc.against_events}),
    Section("profiler", "Does torch.profiler give the same results with gpuwatch?", 60, {"torch.profiler": torch.with_profiler}),
    Section("cost-steps", "What is the overhead for a training step?", 90, {
        "ResNet-50": torch.cost_part("resnet50", 15), "GPT-2": torch.cost_part("gpt2", 15),
        "tiny kernels": torch.cost_part("tiny-kernels", 5), "loader-bound": torch.cost_part("loader-bound", 6)}),
    Section("residual", "What overhead remains after recording has stopped, and how large is an event?", 60, {
        "after the budget": nvcc.after_the_budget, "bytes": nvcc.bytes_an_event}),
    Section("findings-host", "Does the report name a PyTorch job's stall on the host, and does its prediction come true?", 150,
        torch_cases("pageable-copy", "item-each-step", "many-launches", "cache-emptied")),
    Section("findings-device", "Does the report name a PyTorch job's stall on the GPU, and does its prediction come true?", 150,
        torch_cases("exposed-copy", "single-precision", "small-batch")),
    Section("injection", "Do the driver and NCCL look for their tools through getenv?", 40, {
        "driver": nvcc.driver_asks, "NCCL": torch.collectives}),
    Section("cost-compiled", "What is the overhead for a step of a compiled model?", 90, {
        "GPT-2, torch.compile": torch.cost_part("gpt2-compiled", 15)}),
    Section("programs", "Is the first finding right in programs of tests/abroad, and does its prediction come true?", 580, abroad.PARTS),
]  # fmt: skip


# --- one section, in a separate process ------------------------------------------------------------------------------


def write_json(path, content):
    """Completely or not at all: if interrupted, the old file stays."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(content, indent=1) + "\n")
    beside.replace(path)


def answer(part, rig):
    """The figures and the status of one part."""
    said = {"status": "ok", "reason": None, "figures": []}
    try:
        for figure in part(rig):
            said["figures"].append(asdict(figure))
        if not said["figures"]:
            raise Failed("no figure")
    except NotRun as reason:
        said |= {"status": "not-run", "reason": str(reason)}
    except Failed as reason:
        said |= {"status": "failed", "reason": str(reason)}
    except Exception as error:  # a bug here must not prevent the parts that follow
        said |= {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    return said


def run_parts(section, rig, wanted):
    answers = {}
    for name in wanted or section.parts:
        if name not in section.parts:
            continue
        answers[name] = {"status": "failed", "reason": "cut", "figures": []}
        write_json(rig.scratch / f"{section.id}.json", answers)
        answers[name] = answer(section.parts[name], rig)
        write_json(rig.scratch / f"{section.id}.json", answers)


# --- all sections ------------------------------------------------------------------------------------------------------


def descendants(pid):
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, open_pids = [], [pid]
    while open_pids:
        below = children.get(open_pids.pop(), [])
        found += below
        open_pids += below
    return found


def kill_descendants():
    """Kills everything that a section started, also processes with a new session: orphans are ours (PR_SET_CHILD_SUBREAPER)."""
    while pids := descendants(os.getpid()):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def run_section(section, options, scratch, limit_s):
    """The section's entry in the results."""
    entry = {"id": section.id, "question": section.question, "status": "not-run", "reason": None, "seconds": 0, "parts": {}}
    if limit_s < 5:
        return entry | {"reason": f"no time left: all sections together get {options.minutes:g} minutes (--minutes)"}
    command = [sys.executable, __file__, "--section", section.id, "--scratch", scratch]
    command += [name for name in ("--simulated", "--quick") if getattr(options, name[2:])]
    command += [word for name in options.part or () for word in ("--part", name)]
    command += ["--keep", options.keep.resolve()] if options.keep else []
    began, complaint = time.monotonic(), None
    with (scratch / f"{section.id}.log").open("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        try:
            if process.wait(limit_s):
                log.seek(0)
                complaint = f"failed with status {process.returncode}: {(log.read().strip() or 'no output').splitlines()[-1]}"
        except subprocess.TimeoutExpired:
            complaint = f"killed after {limit_s:g} s"
    kill_descendants()
    answers = scratch / f"{section.id}.json"
    entry["parts"] = json.loads(answers.read_text()) if answers.exists() else {}
    entry["seconds"] = round(time.monotonic() - began, 1)
    return entry | judge(entry["parts"], complaint)


def judge(parts, complaint):
    """A section's status from those of its parts."""
    failed = [f"{name}: {part['reason']}" for name, part in parts.items() if part["status"] == "failed"]
    if complaint:
        return {"status": "failed", "reason": complaint}
    if failed:
        return {"status": "failed", "reason": "; ".join(failed)}
    reasons = sorted({part["reason"] for part in parts.values() if part["status"] == "not-run"})
    answered = any(part["status"] == "ok" for part in parts.values())
    return {"status": "ok" if answered else "not-run", "reason": "; ".join(reasons) or None}


def write_results(folder, slug, results):
    """The figures, and in a second file the numbers behind them."""
    figures, raw = json.loads(json.dumps(results)), {}
    for section in figures["sections"]:
        for name, part in section["parts"].items():
            for figure in part["figures"]:
                if numbers := figure.pop("raw"):
                    raw[f"{section['id']}/{name}/{figure['what']}"] = numbers
    write_json(folder / f"{slug}.raw.json", raw)
    write_json(folder / f"{slug}.json", figures)


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def run_all(options, device):
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    deadline = time.monotonic() + options.minutes * 60
    options.folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="gpuwatch-acceptance-"))
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    results = {"schema": SCHEMA, "device": device, "quick": options.quick, "begun": now(), "ended": None, "sections": []}
    for section in SECTIONS:
        if options.only and section.id not in options.only:
            continue
        limit_s = min(options.seconds or section.limit_s, deadline - time.monotonic())
        entry = run_section(section, options, scratch, limit_s)
        results["sections"].append(entry)
        write_results(options.folder, slug, results)
        print(f"{entry['status']:8} {section.id} ({entry['seconds']} s) {entry['reason'] or ''}", flush=True)
    results["ended"] = now()
    write_results(options.folder, slug, results)
    shutil.rmtree(scratch, ignore_errors=True)
    return 1 if any(entry["status"] == "failed" for entry in results["sections"]) else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="folder for the results")
    parser.add_argument("--simulated", action="store_true", help="rehearse on the simulated device")
    parser.add_argument("--quick", action="store_true", help="reduced sizes: shows that it runs, figures are imprecise")
    parser.add_argument("--only", action="append", choices=[s.id for s in SECTIONS], help="run this section only; repeatable")
    parser.add_argument("--part", action="append", help="run these parts of the sections only, in this order; repeatable")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copy the traces of analyzed jobs, those up to 32 MiB, to this folder")
    parser.add_argument("--minutes", type=float, default=9.5, help="time for all sections (default 9.5)")
    parser.add_argument("--seconds", type=float, help="time for each section, instead of its limit")
    parser.add_argument("--render", action="store_true", help="write docs/gpu-results/README.md and exit")
    parser.add_argument("--bundle", type=Path, metavar="FOLDER", help="copy what a bare machine needs and exit")
    parser.add_argument("--section", help=argparse.SUPPRESS)  # of the process of one section
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.section:
        section = next(s for s in SECTIONS if s.id == options.section)
        return run_parts(section, Rig(options.simulated, options.quick, options.scratch, options.keep), options.part)
    if options.render:
        import render

        return render.write_page()
    if options.bundle:
        import bundle

        return bundle.make(options.bundle)
    options.folder = (options.folder or (ROOT / "build/gpu-rehearsal" if options.simulated else RESULTS)).resolve()
    known = {name for section in SECTIONS for name in section.parts}
    if unknown := set(options.part or ()) - known:
        return complain(f"no section has a part {', '.join(sorted(unknown))}; the parts are {', '.join(sorted(known))}")
    if options.simulated and options.folder == RESULTS.resolve():
        return complain(f"results of the simulated device do not belong in {RESULTS}; choose another folder")
    try:
        device = device_name(options.simulated)
    except NotRun as reason:
        return complain(f"no NVIDIA GPU here: {reason}; use --simulated to rehearse on the simulated device")
    if not options.simulated and is_simulated(device):
        return complain("the only device here is the simulated one; use --simulated to rehearse on it")
    return run_all(options, "Simulated device" if options.simulated else device)


def is_simulated(device):
    """LD_LIBRARY_PATH may name the stand-ins, whose answers are not results of a GPU."""
    loaded = Path("/proc/self/maps").read_text()
    return "libgwsim_core" in loaded or device == "Simulated GPU"


def complain(text):
    print(f"gpu_acceptance: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
