#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own DataLoader tests (test/test_dataloader.py of its source release) without and with injection, and
compares them test by test. Exits with 1 if injection changed an outcome.

    scripts/torch_tests.py [--file test_dataloader.py] [--python PYTHON] [--library LIB] [-k EXPRESSION]

Without --file the file of the installed release is downloaded. PYTHON needs torch, pytest, expecttest and psutil.
A test that differs is run again, alone, three times each way: tests that depend on timing differ without gpuwatch too, and
are reported as unsteady. Not part of `make test`: the tests are PyTorch's, and take some minutes."""

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import urllib.request
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
URL = "https://raw.githubusercontent.com/pytorch/pytorch/v{}/test/test_dataloader.py"
AGAIN = 3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="test_dataloader.py of a PyTorch release")
    parser.add_argument("--python", default=str(ROOT / "build/venv/bin/python"))
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/libgpuwatch.so")
    parser.add_argument("-k", dest="expression", help="run only tests that match (pytest's -k)")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds for one run of all")
    return parser.parse_args()


def check_packages(python):
    probe = "import expecttest, psutil, pytest, torch; print(torch.__version__.split('+')[0])"
    done = subprocess.run([python, "-c", probe], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{python}: {done.stderr.splitlines()[-1]}\nneeded: torch, pytest, expecttest and psutil")
    return done.stdout.strip()


def download(version, directory):
    target = directory / "test_dataloader.py"
    urllib.request.urlretrieve(URL.format(version), target)
    return target


def outcome_of(case):
    kinds = {child.tag for child in case}
    return next((kind for kind in ("error", "failure", "skipped") if kind in kinds), "passed")


def run(args, file, directory, injected, selection=()):
    """{name of test: outcome}; a test whose process died is missing."""
    report = directory / "report.xml"
    report.unlink(missing_ok=True)
    words = [args.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "--rootdir", directory]
    words += ["-k", args.expression] if args.expression and not selection else []
    words += [f"{file}::{name}" for name in selection] or [file]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LD_PRELOAD", "GPUWATCH_"))}
    if injected:
        env |= {"LD_PRELOAD": str(args.library), "GPUWATCH_OUT": str(directory / "run")}
    with open(directory / f"{'injected' if injected else 'plain'}.log", "a") as log:
        subprocess.run([str(word) for word in words], env=env, cwd=directory, stdout=log, stderr=log, timeout=args.timeout)
    if not report.exists():
        return {}
    cases = xml.etree.ElementTree.parse(report).iter("testcase")
    return {f"{case.get('classname').rpartition('.')[2]}::{case.get('name')}": outcome_of(case) for case in cases}


def explain(args, file, directory, name, plain, injected):
    """Whether injection changes the outcome; a test that is unsteady without it does not count."""
    outcomes = {False: collections.Counter({plain: 1}), True: collections.Counter({injected: 1})}
    for _ in range(AGAIN):
        for is_injected, counts in outcomes.items():
            counts[run(args, file, directory, is_injected, [name]).get(name, "died")] += 1
    is_unsteady = set(outcomes[False]) & set(outcomes[True])
    print(f"  {name}: without {dict(outcomes[False])}, with {dict(outcomes[True])}{', unsteady' if is_unsteady else ''}", flush=True)
    return not is_unsteady


def main():
    args = parse_arguments()
    version = check_packages(args.python)
    with tempfile.TemporaryDirectory(prefix="gpuwatch-torch-tests-") as scratch:
        directory = Path(scratch)
        file = (args.file or download(version, directory)).resolve()
        results = {injected: run(args, file, directory, injected) for injected in (False, True)}
        traces = len(list((directory / "run").glob("*.gwt")))
        for injected, outcomes in results.items():
            counts = collections.Counter(outcomes.values())
            print(f"{'with' if injected else 'without':7} injection: {len(outcomes)} tests, {dict(counts)}", flush=True)
        if not results[False] or not traces:
            print((directory / "plain.log").read_text()[-2000:])
            sys.exit("no tests ran" if not results[False] else "nothing was recorded, so the comparison is meaningless")
        names = sorted(results[False].keys() | results[True].keys())
        pairs = {name: (results[False].get(name, "died"), results[True].get(name, "died")) for name in names}
        different = [name for name, (plain, injected) in pairs.items() if plain != injected]
        print(f"PyTorch {version}: {len(names) - len(different)} of {len(names)} tests have the same outcome; {traces} traces", flush=True)
        changed = [name for name in different if explain(args, file, directory, name, *pairs[name])]
        sys.exit(f"{len(changed)} tests have another outcome with injection" if changed else 0)


if __name__ == "__main__":
    main()
