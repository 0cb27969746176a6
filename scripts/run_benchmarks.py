#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every benchmark: the compiled ones (build/release/bin/bench/*) and the scripts (tests/bench/bench_*.py).

Each prints its own table. Names on the command line choose some: `scripts/run_benchmarks.py bench_startup`.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("GPUWATCH_BUILD", ROOT / "build/release"))


def benchmarks():
    """Name and command of each."""
    compiled = [path for path in sorted((BUILD / "bin/bench").glob("*")) if os.access(path, os.X_OK)]
    scripts = sorted((ROOT / "tests/bench").glob("bench_*.py"))
    return {path.stem: [path] for path in compiled} | {path.stem: [sys.executable, path] for path in scripts}


def main():
    known = benchmarks()
    chosen = sys.argv[1:] or list(known)
    if unknown := [name for name in chosen if name not in known]:
        sys.exit(f"run_benchmarks: no such benchmark: {', '.join(unknown)} (there are: {', '.join(known) or 'none'})")
    if not chosen:
        sys.exit(f"run_benchmarks: no benchmarks in {BUILD}/bin/bench or tests/bench; run `make build`")
    failed = []
    for name in chosen:
        print(f"== {name}", flush=True)
        if subprocess.run(known[name], env={**os.environ, "GPUWATCH_BUILD": str(BUILD)}).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"run_benchmarks: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
