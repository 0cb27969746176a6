#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every check and test, prints one line for each, and a closing `N passed, N failed`.

Three kinds, one after the other, because most tests compare times and must not compete for the CPU:
  checks   make check's scripts, on the sources and on the built library
  ctest    compiled tests, each ctest case counts as one
  pytest   tests/**/test_*.py, each pytest case counts as one; files marked beside_others first, one on each CPU
A pytest case that fails on a disturbed machine (steal time, processes other than the tests) is run again at the end, at most
twice, and each result is printed. A case that compares times and fails on an undisturbed machine is run again too and must
then pass twice: a rare delay of the kernel does not occur in three runs, a defect does. A case that compares times counts as
skipped if it failed in a different way each time and steal time was at least 5% of a CPU in the last run. Exit status 1
if anything failed, nothing ran, or no case ran in a folder of FOLDERS. A terminal also gets a progress line.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from disturbance import PROVES_NOTHING, STOLEN_SHARE, Disturbance  # noqa: E402

KINDS = ("checks", "ctest", "pytest")
# The folders of tests/ whose files pytest runs. Named, so that one which is renamed or collects nothing is missed.
FOLDERS = ("cupti", "fuzz", "gpu", "groundtruth", "imported", "inject", "install", "nvtx", "page", "pypackage", "python", "recorded", "scripts", "storage", "timeline", "torch_cuda", "zoo")
TRIES = 3
LAST_PHASES = ("teardown", "???")  # the latter is xdist's word for a case whose process died
BESIDE_OTHERS = "beside_others"  # marks a file whose cases compare no times
LANES = (["-m", BESIDE_OTHERS, "-n", "auto", "--dist", "loadfile"], ["-m", f"not {BESIDE_OTHERS}"])

# "  3/17 Test  #3: trace.reads_back ......   Passed    0.01 sec"
CTEST_LINE = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (?P<name>.+?) \.*\s*(?P<outcome>\S.*?)\s+(?P<seconds>[\d.]+) sec")
CTEST_START = re.compile(r"^\s*Start +\d+: (?P<name>.+)")
# What ctest says besides the results and the output of failed tests.
CTEST_CHATTER = re.compile(
    r"^\s*(Start +\d+:|Test project |Internal ctest|UpdateCTestConfiguration|Label Time|Total Test time|\d+% tests"
    r"|The following tests|\t *\d+ - |Errors while running|Output from these tests|Use \"--rerun|[\w.]+ +=.*proc\))"
)


class Results:
    """Counts outcomes and prints a line for each as it comes; on a terminal also what runs now."""

    def __init__(self):
        self.counts = Counter()
        self.seconds = Counter()  # by check, by file of pytest's cases, and for all of ctest's
        self.started = time.monotonic()
        self.is_terminal = sys.stdout.isatty()
        self.begin_part(None)

    def begin_part(self, cases):
        """What follows is so many cases (None: not known)."""
        self.cases, self.done = cases, 0

    def running(self, kind, name):
        if self.is_terminal:
            place = f"{self.done + 1} of {self.cases}" if self.cases else f"{self.done + 1}"
            line = f"{kind} {place}, {self.counts['failed']} failed, {time.monotonic() - self.started:.0f} s: {name}"
            self.rewrite(line[: shutil.get_terminal_size().columns - 1])

    def rewrite(self, line):
        if self.is_terminal:
            print(f"\r\033[K{line}", end="", flush=True)

    def add(self, kind, name, outcome, seconds, detail=""):
        self.counts[outcome] += 1
        self.seconds[kind if kind == "ctest" else name.partition("::")[0]] += seconds
        self.done += 1
        self.rewrite("")
        label = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip", "again": "again"}[outcome]
        print(f"{label} {kind}: {name} ({seconds:.2f} s)", flush=True)
        if detail:
            print("\n".join("     " + line for line in detail.rstrip().splitlines()), flush=True)

    def close(self):
        self.rewrite("")
        if self.counts["skipped"]:
            print(f"{self.counts['skipped']} skipped, for the reasons given above")
        if self.counts["again"]:
            print(f"{self.counts['again']} times a case was run again")
        longest = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.seconds.most_common(12))
        print(f"{time.monotonic() - self.started:.0f} s in all, the longest: {longest}")
        print(f"{self.counts['passed']} passed, {self.counts['failed']} failed", flush=True)
        return 0 if self.counts["passed"] and not self.counts["failed"] else 1


def run_checks(build, results):
    scripts = ROOT / "scripts"
    for name, command in (
        ("layers", [sys.executable, scripts / "check_layers.py"]),
        ("unused", [sys.executable, scripts / "check_unused.py"]),
        ("planted unused values", [sys.executable, scripts / "check_unused.py", "--self-test"]),
        ("functions left out", [sys.executable, scripts / "check_left_out.py"]),
        ("planted functions", [sys.executable, scripts / "check_left_out.py", "--self-test"]),
        ("documents", [sys.executable, scripts / "document.py", "--check", "--gpuwatch", build / "bin/gpuwatch"]),
        ("words", [sys.executable, scripts / "check_words.py"]),
        ("format", [scripts / "check_format.sh"]),
        ("lint", [sys.executable, scripts / "check_lint.py", build]),
        ("library", [scripts / "check_library.sh", build]),
    ):
        results.running("check", name)
        started = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        outcome = "failed" if done.returncode else "passed"
        results.add("check", name, outcome, time.monotonic() - started, done.stdout if done.returncode else "")


def run_ctest(build, results):
    command = ["ctest", "--test-dir", str(build), "--output-on-failure", "--no-tests=error", "--timeout", "300"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    failures_before = results.counts["failed"]
    for line in process.stdout:
        if match := CTEST_LINE.match(line):
            outcome = match["outcome"].lower()
            outcome = "passed" if outcome == "passed" else "skipped" if "skipped" in outcome else "failed"
            results.add("ctest", match["name"], outcome, float(match["seconds"]))
        elif match := CTEST_START.match(line):
            results.running("ctest", match["name"])
        elif line.strip() and not CTEST_CHATTER.match(line):
            print("     " + line.rstrip(), flush=True)
    # A crash of ctest itself, or no tests at all, must not pass for success.
    if process.wait() != 0 and results.counts["failed"] == failures_before:
        results.add("ctest", "ctest itself", "failed", 0.0, f"{' '.join(command)} ended with {process.returncode}")


def reason_of(skipped):
    """Why pytest skipped a case: (file, line, reason) for a skip, else the text of an expected failure."""
    return skipped.longrepr[2] if isinstance(skipped.longrepr, tuple) else getattr(skipped, "wasxfail", "")


def cause_of(failed):
    """The exception and its place, then the whole account: of a long log often only the first lines are kept."""
    crash = getattr(failed.longrepr, "reprcrash", None)
    return f"{crash.path}:{crash.lineno}: {crash.message}\n{failed.longreprtext}" if crash else failed.longreprtext


def headline(failed):
    return cause_of(failed).partition("\n")[0]


def compares_times(report):
    return BESIDE_OTHERS not in report.keywords


def stolen_share_of(report):
    """While the programs ran whose times the case compares; 0 for cases that compare none."""
    return max((value for name, value in report.user_properties if name == STOLEN_SHARE), default=0)


@dataclass
class Failure:
    headline: str
    excused: bool  # others took CPU time from the machine meanwhile


@dataclass
class History:
    """What became of a case in the tries so far."""

    failures: list = field(default_factory=list)
    passes: int = 0

    @property
    def is_decided(self):
        """As often passed as makes up for failures that nothing excuses, or failed so twice."""
        unexcused = sum(not failure.excused for failure in self.failures)
        return unexcused > 1 or self.passes > unexcused

    @property
    def differs_each_time(self):
        headlines = [failure.headline for failure in self.failures]
        return len(set(headlines)) == len(headlines)


class LinePlugin:
    """Makes pytest report each case as one line of ours. A failing set-up or tear-down counts as that case's."""

    def __init__(self, results, histories, is_last_try):
        self.results = results
        self.histories = histories  # by case
        self.is_last_try = is_last_try
        self.reports = {}
        self.undecided = []  # the cases to run again
        self.file = None

    def pytest_collection_finish(self, session):
        self.results.begin_part(len(session.items))

    @pytest.hookimpl(optionalhook=True)  # with cases on each processor, pytest itself collects none
    def pytest_xdist_node_collection_finished(self, ids):
        self.results.begin_part(len(ids))

    def pytest_runtest_logstart(self, nodeid, location):
        self.results.running("pytest", nodeid)
        self.while_case = Disturbance()
        if location[0] != self.file:
            self.file, self.while_file = location[0], Disturbance()

    def pytest_runtest_logreport(self, report):
        phases = self.reports.setdefault(report.nodeid, [])
        phases.append(report)
        if report.when not in LAST_PHASES:
            return
        self.histories.setdefault(report.nodeid, History())
        bad = next((phase for phase in phases if phase.failed), None)
        skipped = next((phase for phase in phases if phase.skipped), None)
        outcome, detail = self.judged(report, bad) if bad or not skipped else ("skipped", reason_of(skipped))
        if outcome == "again":
            self.undecided.append(report.nodeid)
        self.results.add("pytest", report.nodeid, outcome, sum(phase.duration for phase in phases), detail)
        del self.reports[report.nodeid]

    def judged(self, report, bad):
        """(outcome, detail), by this try and the earlier ones."""
        history = self.histories[report.nodeid]
        taken = self.taken()
        if bad:
            history.failures.append(Failure(headline(bad), excused=taken is not None))
        else:
            history.passes += 1
        is_repeatable = taken or not bad or compares_times(report)
        if is_repeatable and not self.is_last_try and not history.is_decided:
            return "again", f"{taken or 'compares times'}\n{cause_of(bad)}" if bad else "it failed before on an undisturbed machine"
        if not bad:
            return "passed", ""
        if self.is_last_try and history.differs_each_time and stolen_share_of(report) >= PROVES_NOTHING:
            return "skipped", f"steal time was {stolen_share_of(report):.0%} of a CPU; what did not agree:\n{cause_of(bad)}"
        return "failed", cause_of(bad)

    def taken(self):
        """What others took while the case ran, or while its file's earlier cases recorded for all of them, if it matters."""
        return next((taken for taken in (self.while_case.so_far(), self.while_file.so_far()) if taken.matters), None)

    def pytest_collectreport(self, report):
        if report.failed:
            self.results.add("pytest", report.nodeid or "collection", "failed", 0.0, report.longreprtext)


def run_pytest(build, results):
    os.environ["GPUWATCH_BUILD"] = str(build)
    options = ["--rootdir", str(ROOT), "-p", "no:terminal", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    histories = {}

    def undecided(cases, is_last_try=False):
        failures_before = results.counts["failed"]
        plugin = LinePlugin(results, histories, is_last_try)
        status = pytest.main([*cases, *options], plugins=[plugin])
        if status not in (0, 1) and results.counts["failed"] == failures_before:
            results.add("pytest", "pytest itself", "failed", 0.0, f"pytest.main ended with {status!r}")
        return [str(ROOT / case) for case in plugin.undecided]

    cases = [case for lane in LANES for case in undecided([str(ROOT / "tests"), *lane])]
    for tries_left in reversed(range(TRIES - 1)):
        if cases:
            cases = undecided(cases, is_last_try=tries_left == 0)
    for folder in sorted(set(FOLDERS) ^ {case.split("/")[1] for case in histories}):
        reason = "no case was collected" if folder in FOLDERS else "scripts/run_tests.py does not name it in FOLDERS"
        results.add("pytest", f"tests/{folder}", "failed", 0.0, reason)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="release", help="which build to test (release, asan, tsan)")
    parser.add_argument("--only", choices=KINDS, action="append", help="run only this kind (may be repeated)")
    arguments = parser.parse_args()
    build = ROOT / "build" / arguments.preset
    runners = {"checks": run_checks, "ctest": run_ctest, "pytest": run_pytest}
    results = Results()
    for kind in arguments.only or KINDS:
        runners[kind](build, results)
    return results.close()


if __name__ == "__main__":
    sys.exit(main())
