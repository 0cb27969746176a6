#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets `gpuwatch try` work on jobs of tests/abroad and tests/zoo, and writes docs/trying.md: predicted against measured, in one table.

The programs know nothing of gpuwatch, and nothing of them is edited. Needs what `make abroad` needs."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/abroad"), str(ROOT / "tests")]
import abroad_case  # noqa: E402
from cases import CASES  # noqa: E402

RESULTS, PAGE = ROOT / "docs/trying/results.json", ROOT / "docs/trying.md"
JOBS = [
    "skorch-service", "accelerate-service", "mds-streaming", "lightning-short-epochs", "trainer-tokenize", "fastai-photos",
    "review-stream", "iterable-uneven", "federated-hospitals", "store-sales", "resnet-remote-store", "resnet-pageable",
]  # fmt: skip
ZOO = [
    abroad_case.Case(f"zoo-{name}", f"../../zoo/programs/{program}", tuple(words.split()), [], package="the zoo")
    for name, program, words in (
        ("workers", "slow_dataset.py", "--workers 0 --service-ms 40 --train-ms 60 --batches 200"),
        ("prefetch", "slow_dataset.py", "--workers 1 --prefetch 1 --service-ms 10 --slow-ms 250 --slow-every 12 --train-ms 40 --batches 300"),
        ("persistent-workers", "slow_dataset.py", "--workers 2 --service-ms 20 --train-ms 60 --batches 6 --epochs 30"),
        ("head-of-line", "slow_dataset.py", "--workers 3 --service-ms 50 --slow-ms 450 --slow-every 9 --train-ms 30 --batches 300"),
    )
]
HEAD = """# gpuwatch try, measured

Written by `make tried` (scripts/tried.py); do not edit. Each row is a setting that `gpuwatch try` applied through the injection to a
program of `tests/abroad` or `tests/zoo`, none of which was edited. "Predicted" is what the report said before; "measured" is the mean step with the
setting in force; the settings of a job are applied one after another. The script's own clock is what it prints itself, where it does.

| job | written with | setting | as it was, ms | predicted, ms | measured, ms | speedup | inside | own clock | kept |
|---|---|---|---|---|---|---|---|---|---|
"""


def tried(case):
    """The report of `gpuwatch try` for one job."""
    gpuwatch = abroad_case.BUILD / "bin/gpuwatch"
    with tempfile.TemporaryDirectory(prefix="gpuwatch-tried-") as folder, abroad_case.surroundings(case) as names:
        words = [word.format(**names) for word in case.words]
        command = [gpuwatch, "try", "--json", "-o", f"{folder}/trials", "--seconds", "60", "--changes", "2", *abroad_case.start_of(case), *words]
        environment = {**abroad_case.environment_of(case), "GPUWATCH_KEEP": "0"}
        done = subprocess.run([str(word) for word in command], env=environment, cwd=abroad_case.HOME, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"tried: {case.name} ended with {done.returncode}: {done.stderr[-800:]}")
    return json.loads(done.stdout)


def number(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def predicted(trial):
    prediction = trial["change"]["prediction"]
    if prediction:
        return f"{number(prediction['expected_ms'])} ({number(prediction['low_ms'])}–{number(prediction['high_ms'])})"
    return f"up to {trial['change']['ceiling']:.1f}x" if trial["change"]["ceiling"] else ""


def row(case, first, trial):
    before, after = first["own_clock"], trial["own_clock"]
    own = f"{number(before['value'])} → {number(after['value'])} {after['unit']}" if before and after and before["unit"] == after["unit"] else ""
    measured, speedup = (number(trial["step_ms"]), f"{trial['speedup']:.2f}x") if trial["step_ms"] else (trial["problem"], "")
    inside = {True: "yes", False: "**no**", None: ""}[trial["inside"]]
    settings = ", ".join(f"`{setting}`" for setting in trial["change"]["settings"])
    return [case.name, case.package or "PyTorch", settings, number(trial["compared_ms"]), predicted(trial), measured, speedup, inside, own, "yes" if trial["kept"] else "no"]


def write_page(results):
    rows, inside, width = [], [], []
    for case in [*CASES, *ZOO]:
        if case.name not in results:
            continue
        first, *others = results[case.name]["trials"]
        if not others:
            rows.append([case.name, case.package or "PyTorch", "none can be applied", number(first["step_ms"]), "", "", "", "", "", ""])
        for trial in others:
            rows.append(row(case, first, trial))
            if trial["inside"] is not None:
                prediction = trial["change"]["prediction"]
                inside.append(trial["inside"])
                width.append((prediction["high_ms"] - prediction["low_ms"]) / prediction["expected_ms"])
    text = HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    width = sorted(width)[len(width) // 2] if width else 0
    text += f"\n{sum(inside)} of {len(inside)} predictions hold what was measured; their median width is {width:.0%} of the expected step.\n"
    PAGE.write_text(text)
    print(text.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="JOB", help="these jobs; the others keep their last result")
    only = parser.parse_args().only or [*JOBS, *[case.name for case in ZOO]]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    for case in [*CASES, *ZOO]:
        if case.name not in only:
            continue
        results[case.name] = tried(case)
        RESULTS.write_text(json.dumps({name: shown(result) for name, result in sorted(results.items())}, indent=1) + "\n")
        print(case.name, *[f"{trial['change'] and trial['change']['settings']} {trial['step_ms']}" for trial in results[case.name]["trials"]], flush=True)
    write_page(results)


def shown(result):
    """Without paths of this machine."""
    for trial in result["trials"]:
        trial.pop("directory", None)
        trial["applied"] = [words.partition(" at ")[0] for words in trial["applied"]]
        if trial["change"] and trial["change"]["location"]:
            trial["change"]["location"] = trial["change"]["location"].rpartition("/")[2]
    result.pop("command", None)
    return result


if __name__ == "__main__":
    main()
