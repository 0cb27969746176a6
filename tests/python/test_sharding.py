# SPDX-License-Identifier: Apache-2.0
"""Which iterable datasets are recorded to give each worker its own part, on real PyTorch, without running their code."""

import sys

import pytest
from conftest import PROGRAMS

pytestmark = pytest.mark.beside_others

NOT_KNOWN, NOT_SEEN, BY_WORKER = range(3)
EXPECTED = {
    "plain": NOT_SEEN, "asks": BY_WORKER, "asks in a function": BY_WORKER, "wraps plain": NOT_SEEN, "wraps asks": BY_WORKER,
    "wraps a library's": NOT_KNOWN, "recurses": NOT_SEEN, "split at start": NOT_KNOWN, "indexed": NOT_KNOWN,
}  # fmt: skip


def test_datasets_that_ask_for_their_worker_are_known(run_both):
    plain, watched = run_both([sys.executable, PROGRAMS / "iterables.py"])
    assert (plain.returncode, plain.stdout, plain.stderr) == (watched.returncode, watched.stdout, watched.stderr)
    assert plain.returncode == 0, plain.stderr
    recorded = sorted(watched.trace.tables("LoaderInfo"), key=lambda row: row["id"])
    assert dict(zip(plain.stdout.splitlines(), [row["sharding"] for row in recorded], strict=True)) == EXPECTED
