#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of tests/abroad, on which no rule was developed, once under gpuwatch each, and writes docs/abroad.md.

    scripts/abroad.py                    programs that have no result yet
    scripts/abroad.py --only NAME ...    these; a program that has a result gets a later one, which is not judged
    scripts/abroad.py --report           only write docs/abroad.md from docs/abroad/results.json

The expected answers are in tests/abroad/truth.json, found by tests/abroad/truth.py without gpuwatch. Each program runs once under
gpuwatch, and once more next to a busy process if it is healthy. The fix that the first finding names is applied, and the program's
own clock read. Results are only ever appended. The first one of a program is judged.
"""

import argparse
import contextlib
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/abroad"), str(ROOT / "tests")]
import abroad_case  # noqa: E402
from cases import CASES  # noqa: E402
from disturbance import Disturbance  # noqa: E402
from truth import TRUTH  # noqa: E402

RESULTS = ROOT / "docs/abroad/results.json"
PAGE = ROOT / "docs/abroad.md"
GPUWATCH = abroad_case.BUILD / "bin/gpuwatch"
NEIGHBOR = [sys.executable, "-c", "while True: pass"]
DISTURBED, TRIES = 0.05, 3  # a run with the fix applied is repeated where other programs took more of a CPU than this
# A recording may not know better than the program's own clock, which itself differs by so much between two runs.
CLOCK = 0.03
# Steps that differ by more are not the same steps.
OTHER_STEPS = 1.5
# The causes for which a replay can say what the fix gains: a prediction is due, and an upper bound is not enough.
PREDICTABLE = {
    "dataloader-workers", "dataloader-oversubscribed", "dataloader-prefetch", "dataloader-persistent-workers", "dataloader-head-of-line",
    "pin-memory", "collate-cost", "input-storage", "sync-per-step", "blocking-copy", "allocator-churn", "launch-bound", "small-batch",
    "mixed-precision", "host-work", "repeated-copy", "checkpoint-stall", "logging-stall", "gc-pause", "cpu-quota", "cpu-undersized",
    "cpu-contention",
}  # fmt: skip
# Settings of which a flag with another word in it is another change, with another gain.
IN_FLAGS = {
    "torch.set_float32_matmul_precision": ("tf32", "high"), "torch.autocast": ("amp", "bf16", "bfloat16", "fp16", "float16", "half", "precision"),
    "torch.compile": ("compile",), "CUDA graph": ("graph",),
}  # fmt: skip
GOALS = {
    "right first finding": "90%", "inside the interval": "90%", "predictions given": "90%", "width, loaders": "10%",
    "width, device": "25%", "width, all": "15%", "findings on healthy programs": "0", "the same, next to a busy process": "0",
}  # fmt: skip


def commit():
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=9"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def neighbor(is_wanted):
    """A process that keeps one CPU busy."""
    busy = subprocess.Popen(NEIGHBOR) if is_wanted else None
    try:
        yield
    finally:
        if busy:
            busy.kill()
            busy.wait()


def recorded(case, beside_neighbor=False):
    """Runs the program under gpuwatch: its own clock, the report, and what others took of the CPUs."""
    out = Path(tempfile.mkdtemp(prefix="gpuwatch-abroad-", dir=abroad_case.HOME))
    library = subprocess.run([GPUWATCH, "lib"], check=True, capture_output=True, text=True).stdout.strip()
    try:
        disturbance = Disturbance()
        with neighbor(beside_neighbor):
            own = abroad_case.run(case, environment={"LD_PRELOAD": library, "GPUWATCH_OUT": str(out)})
            taken = disturbance.so_far()
        done = subprocess.run([GPUWATCH, "analyze", out, "--json"], capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise abroad_case.Failed(f"{case.name}: analyze ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return own, json.loads(done.stdout), round(taken.foreign + taken.stolen, 3)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def complaints(report):
    return [finding for finding in report["findings"] if finding["severity"] != "info"]


def change_of(case, finding):
    """The program's arguments and variables that apply the finding's fix, or None where the program has none for it."""
    setting, value = finding["fix"]["setting"], str(finding["fix"]["value"] or "")
    fitting = [fix for fix in case.fixes if finding["id"] in fix.findings]
    if setting in IN_FLAGS:
        fitting = [fix for fix in fitting if any(word in fix.name.lower() for word in IN_FLAGS[setting])]
    for fix in fitting:
        for name, option in fix.takes:
            if name == setting and value and not value.startswith("x"):  # "x16": of a size that was not seen
                return abroad_case.Fix(fix.findings, (option, value))
    for fix in fitting:
        if value and value.lower() in fix.words:
            return fix
    return fitting[0] if fitting else None


def achieved(case, change):
    """The program's own clock with the fix applied, not recorded."""
    for _ in range(TRIES):
        disturbance = Disturbance()
        own = abroad_case.run(case, change.words, change.env)
        taken = disturbance.so_far()
        if taken.foreign + taken.stolen <= DISTURBED:
            break
    return own


def within_clone(text):
    """Without the folder of this clone, which is one machine's."""
    return text and text.replace(f"{ROOT}/", "")


def result_of(case):
    own, report, others = recorded(case)
    found = complaints(report)
    result = {
        "program": case.name, "commit": commit(), "date": datetime.date.today().isoformat(), "status": case.status, "own": own, "others": others,
        "verdict": report["verdict"]["id"], "complaints": [finding["id"] for finding in found], "first": found[0]["id"] if found else "",
        "fix": {key: within_clone(found[0]["fix"][key]) for key in ("setting", "value", "location")} if found else None,
        "prediction": found[0]["prediction"] if found else None, "ceiling": found[0]["ceiling"] if found else None,
    }  # fmt: skip
    change = change_of(case, found[0]) if found else None
    if change:
        result["applied"], result["achieved"] = change.name, achieved(case, change)
    return result


def complaints_next_to_a_busy_process(case):
    """What is said about the program next to a busy process."""
    return [finding["id"] for finding in complaints(recorded(case, beside_neighbor=True)[1])]


# ---- judging ----------------------------------------------------------------------------------------------------------------------


class Row:
    """A result, its truth, and what follows from both."""

    def __init__(self, result, truth, is_first):
        self.result, self.truth = result, truth
        self.case = next((case for case in CASES if case.name == result["program"]), None)
        self.is_judged = is_first and result["status"] == "new"
        self.is_healthy = truth["healthy"]
        self.prediction, self.after = result["prediction"], result.get("achieved")

    @property
    def expected(self):
        return "healthy" if self.is_healthy else " or ".join(f"`{finding}`" for finding in self.truth["findings"])

    @property
    def is_right(self):
        return not self.result["complaints"] if self.is_healthy else self.result["first"] in self.truth["findings"]

    @property
    def is_due(self):
        """A prediction must be given: all that would be right answers have one."""
        return not self.is_healthy and set(self.truth["findings"]) <= PREDICTABLE

    @property
    def own_steps(self):
        """The program's own steps in one of the report's: it may count each batch where the report counts optimizer steps."""
        if self.metric != "step_ms" or not self.prediction:
            return 1
        ratio = self.prediction["now"] / self.result["own"]["step_ms"]
        return ratio if max(ratio, 1 / ratio) > OTHER_STEPS else 1

    @property
    def interval(self):
        """Low and high of what was said about the program with the fix, in the prediction's metric and the program's own steps."""
        if self.prediction:
            return self.prediction["low"] / self.own_steps, self.prediction["high"] / self.own_steps
        if self.result["ceiling"]:
            now = self.result["own"]["step_ms"]
            return now / self.result["ceiling"]["speedup"] * (1 - CLOCK), now * (1 + CLOCK)
        return None

    @property
    def metric(self):
        return self.prediction["metric"] if self.prediction else "step_ms"

    @property
    def is_inside(self):
        """None where nothing was said, or nothing could be applied."""
        if not self.after or not self.interval:
            return None
        low, high = self.interval
        return low <= self.after[self.metric] <= high

    @property
    def width(self):
        return (self.prediction["high"] - self.prediction["low"]) / self.prediction["expected"] if self.prediction else None


def rows_of(results, truth):
    seen, rows = set(), []
    for result in results:
        name = result["program"]
        if name in truth:
            rows.append(Row(result, truth[name], name not in seen))
        seen.add(name)
    return rows


def percent(part, whole):
    return f"{part} of {whole} ({100 * part / whole:.0f}%)" if whole else "none"


def median(values):
    return f"{100 * statistics.median(values):.1f}%" if values else "none"


def summary(rows):
    ill, healthy = [row for row in rows if not row.is_healthy], [row for row in rows if row.is_healthy]
    predicted = [row for row in rows if row.prediction and row.is_inside is not None]
    due = [row for row in ill if row.is_due]
    widths = {row.result["program"]: row.width for row in rows if row.prediction}

    def widths_of(*sides):
        return median([widths[row.case.name] for row in rows if row.case and row.case.side in sides and row.case.name in widths])

    return {
        "programs": str(len(rows)),
        "right first finding": percent(sum(row.is_right for row in rows), len(rows)),
        "inside the interval": percent(sum(row.is_inside for row in predicted), len(predicted)),
        "predictions given": percent(sum(bool(row.prediction) for row in due), len(due)),
        "width, loaders": widths_of("input"), "width, device": widths_of("device"), "width, all": median(list(widths.values())),
        "findings on healthy programs": f"{sum(len(row.result['complaints']) for row in healthy)} on {len(healthy)}",
        "the same, next to a busy process": f"{sum(len(row.result.get('busy_neighbor') or []) for row in healthy)} on {len(healthy)}",
    }  # fmt: skip


UNITS = {"step_ms": "ms", "samples_per_s": "samples/s"}


def line(row):
    result = row.result
    said = ""
    if row.prediction:
        said = f"{row.prediction['expected']:.4g} ({row.prediction['low']:.4g}–{row.prediction['high']:.4g}) {UNITS.get(row.metric, row.metric)}"
    elif result["ceiling"]:
        said = f"up to {result['ceiling']['speedup']:.2f}x"
    after = f"{row.after[row.metric]:.4g} with `{result['applied']}`" if row.after else ""
    inside = "" if row.is_inside is None else ("yes" if row.is_inside else "**no**")
    width = f"{100 * row.width:.0f}%" if row.width is not None else ""
    first = f"`{result['first']}`" if result["first"] else "none"
    if row.is_healthy and "busy_neighbor" in result:
        first += f"; next to a busy process {', '.join(f'`{one}`' for one in result['busy_neighbor']) or 'none'}"
    notes = [] if row.is_judged else ["later result" if result["status"] == "new" else "seen"]
    notes += [f"a step of the report is {row.own_steps:.2g} of these"] if row.own_steps != 1 else []
    notes += ["truth is provisional"] if row.truth["provisional"] else []
    notes += [f"others took {100 * result['others']:.0f}% of a CPU"] if result["others"] > DISTURBED else []
    cells = [
        result["commit"], result["date"], result["program"], row.expected, f"{row.truth['gain']:.2f}x", first, "yes" if row.is_right else "**no**",
        f"{result['own']['step_ms']:.4g}", said, after, inside, width, "; ".join(notes),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def batches(rows):
    """{commit: its rows}: what programs that were new to it say of each state of gpuwatch."""
    found = {}
    for row in rows:
        found.setdefault(row.result["commit"].rstrip("+"), []).append(row)
    return found


def table_of_figures(rows):
    columns = {commit: summary(those) for commit, those in batches(rows).items()} | {"all": summary(rows)}
    lines = [f"|  | {' | '.join(columns)} | goal |", "|---" * (len(columns) + 2) + "|"]
    for name in columns["all"]:
        cells = [name, *(figures[name] for figures in columns.values()), GOALS.get(name, "")]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def page(rows):
    lines = [
        "# Abroad: programs that no rule was developed on", "",
        "Written by `make abroad` (scripts/abroad.py); do not edit. The programs are in `tests/abroad`. Each was recorded once, and its first",
        "result is judged; later ones are not. \"Expected\" is the fix that gains most by the program's own clock, found by applying all that it",
        "offers (`tests/abroad/truth.json`); its gain stands next to it. \"With the fix\" is the program's own clock with the named fix applied.",
        "For an upper bound \"inside\" means that the fix gained no more than that. The columns are the commits that met new programs, oldest first.", "",
        *table_of_figures([row for row in rows if row.is_judged]), "",
        "| commit | date | program | expected | gain | first finding | right | step, ms | predicted | with the fix | inside | width | note |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|", *[line(row) for row in rows], "",
    ]  # fmt: skip
    return "\n".join(lines)


# ---- running ----------------------------------------------------------------------------------------------------------------------


def wanted(options, results, truth):
    have = {result["program"] for result in results}
    for case in CASES:
        if case.name not in options.only if options.only else case.name in have or case.status != "new":
            continue
        if case.name not in truth:
            print(f"skip {case.name}: its truth is unknown; run tests/abroad/truth.py", flush=True)
            continue
        yield case


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these programs, also if they have a result")
    parser.add_argument("--report", action="store_true", help="only write docs/abroad.md")
    options = parser.parse_args()
    truth = json.loads(TRUTH.read_text()) if TRUTH.exists() else {}
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    os.makedirs(abroad_case.HOME, exist_ok=True)
    for case in [] if options.report else list(wanted(options, results, truth)):
        try:
            result = result_of(case)
            if truth[case.name]["healthy"]:
                result["busy_neighbor"] = complaints_next_to_a_busy_process(case)
        except abroad_case.FAILURES as error:
            print(f"FAIL {case.name}: {error}", flush=True)
            continue
        results.append(result)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        row = Row(result, truth[case.name], True)
        print(f"{'ok  ' if row.is_right else 'MISS'} {case.name}: expected {row.expected}, first {result['first'] or 'none'}, inside {row.is_inside}", flush=True)
    rows = rows_of(results, truth)
    PAGE.write_text(page(rows))
    for name, value in summary([row for row in rows if row.is_judged]).items():
        print(f"{name}: {value}", flush=True)


if __name__ == "__main__":
    main()
