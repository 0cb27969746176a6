# SPDX-License-Identifier: Apache-2.0
"""`python -m gpuwatch export`: what other tools' own readers find in the files is what the program says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import gpuwatch as package
import prometheus_client.openmetrics.parser
import prometheus_client.parser
import pyarrow.parquet
import pytest
from gpuwatch import export
from made_trace import HOSTILE
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.beside_others
UUID = "GPU-5cb1b6b1-6ab6-4f0e-9a41-0123456789ab"


@pytest.fixture(scope="module")
def exported(gpuwatch, recording, tmp_path_factory):
    """exported(format, *options) -> what the command did with a recorded trace, and where it wrote to"""
    trace = recording("video-pageable").trace

    def run(format, *options, out=None, program=gpuwatch):
        out = out or tmp_path_factory.mktemp("export") / format
        words = ["export", "--format", format, "--program", program, trace, "-o", out, *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        done = subprocess.run([sys.executable, "-m", "gpuwatch", *map(str, words)], capture_output=True, text=True, env=environment)
        return done, out

    return run


@pytest.fixture
def said(recording):
    return recording("video-pageable").said


def modes(folder):
    return {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}


def test_parquet_has_the_tables(exported, recording, said):
    done, out = exported("parquet")
    assert done.returncode == 0, done.stderr
    report = recording("video-pageable").report
    assert done.stdout.splitlines() == [str(out / f"{name}.parquet") for name in report.tables]
    for name in report.tables:
        assert pyarrow.parquet.read_table(out / f"{name}.parquet").equals(report.to_arrow(name))
    causes = pyarrow.parquet.read_table(out / "causes.parquet", columns=["category", "ns", "seconds", "share"])
    assert causes.to_pylist() == said["ranks"][0]["attribution"]
    assert modes(out) == {0o600} and out.stat().st_mode & 0o777 == 0o700


def families(text):
    return {family.name: family for family in prometheus_client.openmetrics.parser.text_string_to_metric_families(text)}


def samples(text, name):
    return {tuple(sorted(sample.labels.items())): sample.value for sample in families(text)[name].samples}


def test_openmetrics_has_the_numbers(exported, said):
    done, out = exported("openmetrics", "--uuid", f"0={UUID}")
    assert done.returncode == 0, done.stderr
    text, (rank,) = out.read_text(), said["ranks"]
    of_rank = {"rank": "0", "row": "0", "UUID": UUID}
    shares = {tuple(sorted({**of_rank, "category": cause["category"]}.items())): cause["share"] for cause in rank["attribution"]}
    assert samples(text, "gpuwatch_cause_ratio") == shares
    means = samples(text, "gpuwatch_step_seconds")
    assert means[tuple(sorted({**of_rank, "statistic": "mean"}.items()))] == pytest.approx(rank["steps"]["mean_ms"] / 1000, rel=1e-12)
    assert samples(text, "gpuwatch_verdict") == {(("verdict", said["verdict"]["id"]),): 1}
    lost = {(finding["id"], finding["lost_share"]) for finding in said["findings"]}
    assert {(dict(labels)["finding"], value) for labels, value in samples(text, "gpuwatch_finding_lost_ratio").items()} == lost
    speedups = said["findings"][0]["prediction"]["speedup"]
    assert {dict(labels)["bound"]: value for labels, value in samples(text, "gpuwatch_finding_speedup").items()} == speedups
    assert modes(out.parent) == {0o600}


def test_older_scrapers_read_the_same(exported):
    _, out = exported("openmetrics")
    older = {family.name: len(family.samples) for family in prometheus_client.parser.text_string_to_metric_families(out.read_text())}
    assert older == {name: len(family.samples) for name, family in families(out.read_text()).items()}


def test_no_name_of_a_trace_is_a_label(made):
    """Whatever a trace says, the number of time series has a bound; and what the caller gives is escaped."""
    read = made((*HOSTILE, 'name"} 1\n# EOF'))
    text = export.openmetrics(read.report, {0: 'a"b\\c\nd'})
    assert {dict(labels)["UUID"] for labels in samples(text, "gpuwatch_cause_ratio")} == {'a"b\\c\nd'}
    labels = {label for family in families(text).values() for sample in family.samples for label in sample.labels}
    assert labels <= {"rank", "row", "UUID", "category", "statistic", "verdict", "finding", "place", "severity", "bound"}
    assert not re.search("script|alert|img", text)


def test_a_uuid_of_no_rank_is_one_sentence(exported):
    for words, end in ((f"3={UUID}", "gpuwatch: UUID of rank 3: that rank does not exist; the report has 0\n"), ("GPU-5", "as in 0=GPU-5cb1b6b1-…\n")):
        done, out = exported("openmetrics", "--uuid", words)
        assert done.returncode and done.stderr.endswith(end) and not out.exists()


def test_tensorboard_has_each_step(exported, said):
    done, out = exported("tensorboard")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out / 'rank0'}\n"
    (file,) = (out / "rank0").iterdir()
    times = said["ranks"][0]["step_times"]
    events = [event for event in EventFileLoader(str(file)).Load() if event.HasField("summary")]
    assert [event.step for event in events] == list(range(len(times["length_ns"])))
    for index, event in enumerate(events):
        found = {value.tag: value.tensor.float_val[0] for value in event.summary.value}
        causes = {f"gpuwatch_causes/{category}_ms": column[index] / 1e6 for category, column in times["attribution_ns"].items()}
        assert found == pytest.approx({"gpuwatch/step_ms": times["length_ns"][index] / 1e6, **causes}, rel=1e-6)
        assert event.wall_time * 1e9 == pytest.approx(times["start_unix_ns"] + times["begin_ns"][index] + times["length_ns"][index], abs=1000)
    assert modes(out) == {0o600} and (out / "rank0").stat().st_mode & 0o777 == 0o700


def test_tensorboard_mixes_no_runs(exported, recording, tmp_path):
    done, _ = exported("tensorboard", out=tmp_path)
    assert done.returncode == 1 and done.stderr == f"gpuwatch: {tmp_path} exists; choose a folder that does not, because TensorBoard would mix both runs\n"
    assert not list(tmp_path.iterdir())


def test_links_are_not_followed(recording, tmp_path):
    report, target = recording("video-pageable").report, tmp_path / "of-another"
    target.write_text("untouched")
    link = tmp_path / "metrics"
    link.symlink_to(target)
    folder_link = tmp_path / "folder"
    folder_link.symlink_to(tmp_path)
    for write, place in ((export.write_openmetrics, link), (export.write_parquet, folder_link), (export.write_tensorboard, folder_link)):
        with pytest.raises(package.Error, match="exists"):
            write(report, place)
    assert target.read_text() == "untouched"
    assert {path.name for path in tmp_path.iterdir()} == {"of-another", "metrics", "folder"}


def test_an_older_file_becomes_private(recording, tmp_path):
    place = tmp_path / "metrics"
    place.write_text("an older one")
    place.chmod(0o644)
    export.write_openmetrics(recording("video-pageable").report, place)
    assert place.stat().st_mode & 0o777 == 0o600 and place.read_text().endswith("# EOF\n")
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize(("format", "place"), [("openmetrics", "none/metrics"), ("openmetrics", "."), ("parquet", "none/folder"), ("tensorboard", "none/folder")])
def test_what_cannot_be_written_is_one_sentence(exported, tmp_path, format, place):
    done, _ = exported(format, out=tmp_path / place)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and str(tmp_path) in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_is_wrong(exported, tmp_path):
    done, _ = exported("openmetrics", program=tmp_path / "gpuwatch")
    assert done.returncode == 1 and done.stderr.startswith("gpuwatch: ") and done.stderr.count("\n") == 1
