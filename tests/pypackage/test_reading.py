# SPDX-License-Identifier: Apache-2.0
"""`import gpuwatch`: the report as the program says it, as tables, and one sentence where it cannot be read."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import gpuwatch as package
import pytest
from made_trace import HOSTILE

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.beside_others
NAMES = ("exposed-copy", "video-pageable")


def stand_in(path, script):
    """A program that is not gpuwatch."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def run_python(code, **environment):
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**clean, "PYTHONPATH": str(ROOT / "python"), **environment})


@pytest.mark.parametrize("name", NAMES)
def test_the_json_is_the_programs(recording, name):
    read = recording(name)
    assert read.report.json == read.said
    assert read.report.verdict == read.said["verdict"] and read.report.limits == read.said["limits"]


def test_single_steps_only_where_asked_for(recording, gpuwatch):
    plain = package.read([recording("video-pageable").trace], program=gpuwatch)
    assert "steps" not in plain.tables and "step_times" not in plain.json["ranks"][0]
    with pytest.raises(package.Error, match="step_times=True"):
        plain.steps()


@pytest.mark.parametrize("name", NAMES)
def test_causes_are_the_attribution(recording, name):
    read = recording(name)
    causes, (rank,) = read.report.causes(), read.said["ranks"]
    assert causes[["category", "ns", "seconds", "share"]].to_dict("records") == rank["attribution"]
    assert causes["ns"].sum() == rank["wall_ns"]


@pytest.mark.parametrize("name", NAMES)
def test_findings_keep_every_number(recording, name):
    read = recording(name)
    findings = read.report.findings()
    assert list(findings["place"]) == list(range(1, len(read.said["findings"]) + 1))
    for found, said in zip(findings.to_dict("records"), read.said["findings"], strict=True):
        assert (found["id"], found["title"], found["fix_summary"], found["ranks"]) == (said["id"], said["title"], said["fix"]["summary"], said["ranks"])
        if said["prediction"]:
            assert found["prediction_expected"] == said["prediction"]["expected"]
            assert found["prediction_speedup_low"] == said["prediction"]["speedup"]["low"]
        else:
            assert found["prediction_expected"] != found["prediction_expected"]  # missing
    assert len(read.report.evidence()) == sum(len(said["evidence"]) for said in read.said["findings"])


@pytest.mark.parametrize("name", NAMES)
def test_steps_add_up_to_the_causes(recording, name):
    read = recording(name)
    steps, (rank,) = read.report.steps(), read.said["ranks"]
    assert len(steps) == rank["steps"]["recorded"]
    for cause in rank["attribution"]:
        assert steps[cause["category"] + "_ns"].sum() == cause["ns"]
    causes = [column for column in steps if column.endswith("_ns") and column not in ("start_unix_ns", "begin_ns", "length_ns")]
    assert (steps[causes].sum(axis=1) == steps["length_ns"]).all()
    assert steps["length_ns"].mean() / 1e6 == pytest.approx(rank["steps"]["mean_ms"], rel=1e-9)
    assert (steps["begin_ns"].diff().dropna() > 0).all()


def test_every_table_is_the_same_in_arrow_pandas_and_rows(recording):
    report = recording("exposed-copy").report
    for name in report.tables:
        arrow, rows, frame = report.to_arrow(name), report.rows(name), report.to_pandas(name)
        assert arrow.to_pylist() == rows and len(frame) == len(rows)
        assert list(frame) == arrow.schema.names
    with pytest.raises(package.Error, match="has no table 'nothing', but ranks, causes"):
        report.rows("nothing")


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def test_names_of_a_trace_are_text_in_a_notebook(made):
    read = made(HOSTILE)
    shown = Tags(read.report._repr_html_())
    assert set(shown.tags) <= {"div", "b", "table", "tr", "th", "td", "ol", "li", "br"}
    assert read.said["ranks"][0]["device"] in shown.text and "<script>" in read.said["ranks"][0]["device"]
    kernels = {kernel["name"] for kernel in read.said["ranks"][0]["device_work"]["kernels"]}
    assert set(read.report.kernels()["name"]) == kernels


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_short_at_a_prompt(recording, name):
    read = recording(name)
    words = repr(read.report)
    assert read.said["verdict"]["sentence"] in words and read.said["findings"][0]["fix"]["summary"] in words
    assert len(words.splitlines()) <= 7 and len(read.report._repr_html_()) < 4000


def test_a_bad_trace_is_the_programs_sentence(gpuwatch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad.gwt"
    bad.write_bytes(b"no trace" * 1000)
    said = subprocess.run([gpuwatch, "analyze", bad, "--json"], capture_output=True, text=True)
    for trace in (bad, tmp_path / "missing", "--json"):
        with pytest.raises(package.TraceError) as caught:
            package.read(trace, program=gpuwatch)
        assert "\n" not in str(caught.value) and os.path.basename(trace) in str(caught.value)
        if trace == bad:
            assert f"gpuwatch: {caught.value}\n" == said.stderr


def test_a_missing_program_says_what_to_do(tmp_path):
    with pytest.raises(package.ProgramNotFound, match="leave program= out"):
        package.read(tmp_path, program=tmp_path / "gpuwatch")
    code = "import gpuwatch\ntry: gpuwatch.read('x')\nexcept gpuwatch.ProgramNotFound as error: print(error)"
    done = run_python(code, PATH=str(tmp_path))
    assert done.stdout == "the command gpuwatch is not with this package and not on the PATH; install the wheel, or name it: program=...\n", done.stderr


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("""echo '{"schema": "gpuwatch.report.v9"}'""", package.UnknownSchema, "schema 'gpuwatch.report.v9', this package reads 'gpuwatch.report.v1'"),
        ("echo hello", package.UnknownSchema, "did not print a report"),
        ("echo '[]'", package.UnknownSchema, "did not print a report"),
        ("kill -9 $$", package.Error, "ended with signal 9"),
        ("echo broken >&2; exit 7", package.Error, "exit status 7 instead of a report: broken; is it"),
        ("printf 'usage: gpuwatch\\ngpuwatch: error: analyze?\\n' >&2; exit 2", package.Error, "instead of a report: gpuwatch: error: analyze"),
    ],
)
def test_another_program_is_one_sentence(tmp_path, script, error, words):
    with pytest.raises(error, match=words) as caught:
        package.read(tmp_path, program=stand_in(tmp_path / "gpuwatch", script))
    assert "\n" not in str(caught.value)


def test_a_program_of_another_machine_is_one_sentence(tmp_path):
    program = tmp_path / "gpuwatch"
    program.write_bytes(b"\x7fELF of another machine")
    program.chmod(0o755)
    with pytest.raises(package.ProgramNotFound, match="could not be started"):
        package.read(tmp_path, program=program)


def test_reading_needs_no_other_package(recording, gpuwatch):
    trace = recording("video-pageable").trace
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['numpy', 'pandas', 'pyarrow', 'prometheus_client', 'tensorboard']))\n"
        f"import gpuwatch, gpuwatch.export\nr = gpuwatch.read({str(trace)!r}, program={str(gpuwatch)!r})\n"
        "print(len(r.rows('causes')), len(repr(r)) > 0)\n"
        "for act in (r.causes, lambda: r.to_arrow('causes'), lambda: gpuwatch.export.openmetrics(r)):\n"
        "    try: act()\n"
        "    except gpuwatch.MissingPackage as error: print(error)"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    counted, *missing = done.stdout.splitlines()
    assert counted == f"{len(recording('video-pageable').said['ranks'][0]['attribution'])} True"
    for words, package_name, extra in zip(missing, ("pandas", "pyarrow", "prometheus_client"), ("pandas", "export", "export"), strict=True):
        assert words.startswith(f"this needs {package_name}, ") and words.endswith(f"pip install 'gpuwatch-profiler[{extra}]'")
