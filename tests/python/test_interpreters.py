# SPDX-License-Identifier: Apache-2.0
"""Every interpreter of this machine and every way to start a script, on the stand-in for PyTorch: the output is the same
with and without injection, and every batch, fetch and step is in the trace."""

import sys

import pytest
from conftest import PROGRAMS, STUB, interpreters, name_of

pytestmark = pytest.mark.beside_others

SCRIPT = PROGRAMS / "stub_train.py"
PATHS = {"PYTHONPATH": f"{STUB}:{PROGRAMS}"}
FIX_PATH = f"import sys; sys.path[:0] = [{str(STUB)!r}, {str(PROGRAMS)!r}]; import stub_train; "

# name: (words after the interpreter, what stands on standard input)
FORMS = {
    "inline": ([SCRIPT], ""),
    "fork": ([SCRIPT, "workers=2", "context=fork"], ""),
    "spawn": ([SCRIPT, "workers=2", "context=spawn"], ""),
    "forkserver": ([SCRIPT, "workers=2", "context=forkserver"], ""),
    "import in a thread": ([SCRIPT, "thread=1"], ""),
    "import in a thread, fork": ([SCRIPT, "workers=2", "context=fork", "thread=1"], ""),
    "module": (["-m", "stub_train", "workers=2"], ""),
    "command": (["-c", FIX_PATH + "stub_train.main(['workers=2', 'context=fork'])"], ""),
    "standard input": (["-"], FIX_PATH + "stub_train.main(['workers=2', 'context=fork'])"),
    "isolated": (["-I", "-c", FIX_PATH + "stub_train.main(['workers=2', 'context=fork'])"], ""),
    "isolated, spawn": (["-I", "-c", FIX_PATH + "stub_train.main(['workers=2', 'context=spawn'])"], ""),
    "no environment": (["-E", "-c", FIX_PATH + "stub_train.main(['workers=2', 'context=fork'])"], ""),
    "no site": (["-S", SCRIPT, "workers=2", "context=fork"], ""),
    "no byte code": (["-B", SCRIPT], ""),
    "development mode": (["-X", "dev", SCRIPT, "workers=2", "context=fork"], ""),
    "warnings are errors": (["-W", "error", SCRIPT, "workers=2", "context=spawn"], ""),
}
STEPS, PASSES = 20, 2


def check(plain, watched):
    assert (watched.returncode, watched.stdout, watched.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert watched.returncode == 0 and watched.result["steps"] == STEPS
    trace = watched.trace
    nexts = trace.calls("LoaderNext")
    assert (len(nexts), sum(call.failed for call in nexts)) == (STEPS + PASSES, PASSES)
    assert len([call for call in trace.calls("Fetch") if not call.failed]) == STEPS
    assert len(trace.calls("OptimizerStep")) == STEPS
    assert [call.b for call in trace.calls("LoaderStart")] == list(range(PASSES))
    (loader,) = trace.tables("LoaderInfo")
    line = next(i for i, text in enumerate(SCRIPT.read_text().splitlines(), 1) if "DataLoader(" in text)
    assert loader["location"].endswith(f"stub_train.py:{line}")
    assert trace.state("python") == "On"


@pytest.mark.parametrize("form", ["inline", "fork", "spawn"])
@pytest.mark.parametrize("interpreter", interpreters(), ids=name_of)
def test_interpreter(interpreter, form, run_plain, run_watched):
    words, stdin = FORMS[form]
    plain = run_plain([interpreter, *words], env=PATHS, stdin=stdin)
    check(plain, run_watched([interpreter, *words], env=PATHS, stdin=stdin))


@pytest.mark.parametrize("words, stdin", FORMS.values(), ids=FORMS.keys())
def test_way_of_starting(words, stdin, run_plain, run_watched):
    plain = run_plain([sys.executable, *words], env=PATHS, stdin=stdin)
    check(plain, run_watched([sys.executable, *words], env=PATHS, stdin=stdin))
