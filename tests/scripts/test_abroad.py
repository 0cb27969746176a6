# SPDX-License-Identifier: Apache-2.0
"""tests/abroad: the table names options that its programs have, and scripts/abroad.py judges as it says. Runs no program of it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
others = sys.modules.pop("cases", None)  # tests/frameworks has a module of that name
sys.path[:0] = [str(ROOT / "tests/abroad"), str(ROOT / "scripts")]
import abroad  # noqa: E402
from abroad_case import Case, Fix, fix  # noqa: E402
from cases import CASES  # noqa: E402

sys.modules.pop("cases")
if others:
    sys.modules["cases"] = others
pytestmark = pytest.mark.beside_others
PROGRAMS = ROOT / "tests/abroad/programs"
NAMES = [case.name for case in CASES]


def has_option(source, option):
    """As it stands, or made of the name of a field, as some programs make theirs."""
    option = option.replace("--no-", "--") if "BooleanOptionalAction" in source else option
    of_field = '"--" + ' in source and re.search(rf"\b{option[2:].replace('-', '_')}\b", source)
    return f'"{option}"' in source or of_field


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_options_exist(case):
    source = (PROGRAMS / case.program).read_text()
    options = [word for words in (case.words, *(fix.words for fix in case.fixes)) for word in words if word.startswith("--")]
    options += [option for fix in case.fixes for _, option in fix.takes]
    assert not [option for option in options if not has_option(source, option)]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_surroundings_exist(case):
    assert not case.data or f"\ndef {case.data}(folder" in (PROGRAMS / "make_data.py").read_text()
    folders = (ROOT / "tests/abroad/devices", ROOT / "cuda/sim/devices")
    assert not case.device or any((folder / f"{case.device}.conf").exists() for folder in folders)
    assert case.fixes, "nothing to try"
    assert len({fix.name for fix in case.fixes}) == len(case.fixes)


def test_findings_are_known():
    """By the table of rules, which gives the stable ids."""
    known = set(re.findall(r"^## (\S+)$", (ROOT / "docs/findings.md").read_text(), re.MULTILINE))
    unknown = {finding for case in CASES for fix in case.fixes for finding in fix.findings} - known
    assert not unknown


def test_enough_of_each_kind():
    assert len(set(NAMES)) == len(NAMES)
    assert len({case.program for case in CASES}) >= 40
    assert sum(case.side == "input" for case in CASES) >= 10
    assert sum(case.side == "device" for case in CASES) >= 10
    assert sum(case.framework in ("tensorflow", "keras") for case in CASES) >= 5


# ---- judging ----------------------------------------------------------------------------------------------------------------------

TOY = Case("toy", "toy.py", (), [fix("dataloader-workers", "--workers 2", num_workers="--workers"), fix("mixed-precision", "--tf32"), fix("mixed-precision", "--dtype bf16")])
ILL = {"healthy": False, "findings": ["dataloader-workers"], "gain": 2.0, "provisional": False}
HEALTHY = {"healthy": True, "findings": [], "gain": 1.0, "provisional": False}
PREDICTED = {"metric": "step_ms", "now": 20, "low": 9, "expected": 10, "high": 11}


def finding(cause, setting=None, value=None):
    return {"id": cause, "fix": {"setting": setting, "value": value}}


def result(**changes):
    own = {"step_ms": 20, "samples_per_s": 50}
    plain = {"program": "toy", "status": "new", "own": own, "complaints": ["dataloader-workers"], "first": "dataloader-workers", "prediction": PREDICTED, "ceiling": None, "achieved": {"step_ms": 10.5}}
    return plain | changes


@pytest.mark.parametrize(
    "cause, setting, value, words",
    [
        ("dataloader-workers", "num_workers", "6", ("--workers", "6")),  # the report's number, not the table's
        ("dataloader-workers", None, None, ("--workers", "2")),
        ("mixed-precision", "autocast", "bf16", ("--dtype", "bf16")),
        ("mixed-precision", None, None, ("--tf32",)),
        ("pin-memory", "pin_memory", "True", None),  # not among the candidates
    ],
)
def test_what_is_applied(cause, setting, value, words):
    change = abroad.change_of(TOY, finding(cause, setting, value))
    assert (change and change.words) == words


def test_a_variable_is_applied():
    toy = Case("toy", "toy.py", (), [Fix(("page-faults",), (), env={"KEEPS": "all"})])
    change = abroad.change_of(toy, finding("page-faults", "KEEPS", "all"))
    assert (change.words, change.env, change.name) == ((), {"KEEPS": "all"}, "KEEPS=all")


def test_right_and_inside():
    row = abroad.Row(result(), ILL, True)
    assert row.is_judged and row.is_right and row.is_inside and row.width == pytest.approx(0.2)
    assert not abroad.Row(result(first="host-work"), ILL, True).is_right
    assert abroad.Row(result(achieved={"step_ms": 12}), ILL, True).is_inside is False
    assert abroad.Row(result(achieved=None), ILL, True).is_inside is None


def test_an_upper_bound():
    bound = {"prediction": None, "ceiling": {"speedup": 1.5}}
    assert abroad.Row(result(**bound, achieved={"step_ms": 14}), ILL, True).is_inside
    assert abroad.Row(result(**bound, achieved={"step_ms": 11}), ILL, True).is_inside is False


def test_a_healthy_program():
    silent = result(complaints=[], first="", prediction=None, achieved=None)
    assert abroad.Row(silent, HEALTHY, True).is_right
    assert not abroad.Row(result(), HEALTHY, True).is_right


def test_only_the_first_result_is_judged():
    rows = abroad.rows_of([result(), result(first="host-work"), result(program="other", status="seen")], {"toy": ILL, "other": ILL})
    assert [row.is_judged for row in rows] == [True, False, False]
    assert abroad.summary([row for row in rows if row.is_judged])["right first finding"] == "1 of 1 (100%)"


def test_a_withheld_prediction_counts():
    figures = abroad.summary([abroad.Row(result(prediction=None), ILL, True), abroad.Row(result(), ILL, True)])
    assert figures["predictions given"] == "1 of 2 (50%)"
    assert figures["inside the interval"] == "1 of 1 (100%)"


def test_the_page_has_each_result():
    rows = abroad.rows_of([result(commit="a1b2c3d", date="2026-11-23", others=0, applied="--workers 2")], {"toy": ILL})
    assert "| a1b2c3d | 2026-11-23 | toy | `dataloader-workers` | 2.00x | `dataloader-workers` | yes | 20 | 10 (9–11) ms | 10.5 with `--workers 2` | yes | 20% |  |" in abroad.page(rows)
