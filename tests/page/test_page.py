# SPDX-License-Identifier: Apache-2.0
"""`gpuwatch analyze --html`: what is in the file. That it is shown: test_in_browser.py."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_trace import HOSTILE, write_trace

ROOT = Path(__file__).resolve().parents[2]
LOADER = ROOT / "tests/groundtruth/programs/timed_loader.py"
RECORDINGS = ("exposed-copy", "speech-buffers", "video-pageable")


def without_paths(report):
    """What the page has of a report that names no path in full."""
    return {**report, "job": {**report["job"], "user": None}}


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_report_in_the_page_is_the_json_report(recording, name):
    page = recording(name)
    shown, said = page.data["report"], without_paths(page.report)
    assert shown.keys() == said.keys()
    assert shown["ranks"][0]["attribution"] == said["ranks"][0]["attribution"]
    assert shown["verdict"] == said["verdict"]
    for finding, told in zip(shown["findings"], said["findings"], strict=True):
        assert finding["prediction"] == told["prediction"] and finding["evidence"] == told["evidence"]


@pytest.mark.parametrize("name", RECORDINGS)
def test_causes_of_a_drawn_step_fill_it(recording, name):
    page = recording(name)
    for view in page.data["views"]:
        causes = next(lane for lane in view["lanes"] if lane["name"] == "where the time goes")
        end, covered = 0, 0
        for begin, length, *rest in causes["slices"]:
            inside = min(begin + length, view["step_ns"]) - max(begin, 0)
            share = rest[4] / length if len(rest) > 3 else 1  # of several that are drawn together
            covered += max(inside, 0) * share
            end = max(end, begin + length)
        assert covered == pytest.approx(view["step_ns"], rel=0.001)
        assert end >= view["step_ns"]


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_steps_add_up_to_the_report(recording, name):
    page = recording(name)
    (series,) = page.data["series"]
    (rank,) = page.report["ranks"]
    assert series["steps"] == rank["steps"]["recorded"]
    points = len(series["at_s"])
    if series["steps"] == points:
        total = sum(sum(column) for column in series["parts_ms"].values())
        assert total == pytest.approx(rank["wall_ns"] / 1e6, rel=1e-4)


def test_chosen_steps_keep_their_numbers(written, tmp_path):
    page = written(write_trace(tmp_path / "trace.json", ["kernel"], 30, 10), "--steps", "12:14")
    assert page.data["first_step"] == 12
    assert {view["title"].partition(":")[0] for view in page.data["views"]} == {"step 12", "step 13"}


def test_operations_drawn_together_are_counted(written, tmp_path):
    kernels = 20000
    page = written(write_trace(tmp_path / "many.json", ["a", "b"], 4, kernels))
    for view in page.data["views"]:
        (stream,) = (lane for lane in view["lanes"] if "stream" in lane["name"])
        assert stream["drawn_together_ns"] > 0
        steps = view["end_step"] - view["begin_step"]
        count = sum(entry[5] if len(entry) > 5 else 1 for entry in stream["slices"])
        assert steps * kernels <= count <= (steps + 0.25) * kernels
        assert sum(len(lane["slices"]) for lane in view["lanes"]) <= 13000
    assert len(page.text) < 3e6


def test_each_batch_lies_on_the_lane_of_its_worker(inject, written, run_dir):
    done = inject([sys.executable, LOADER, "--batches", 30, "--workers", 2, "--prefetch", 2, "--think-ms", 5])
    assert done.returncode == 0, done.stderr
    page = written(run_dir)
    (view,) = page.data["loaders"]
    assert [lane["name"] for lane in view["lanes"]] == ["training thread waits", "DataLoader 0 worker 0", "DataLoader 0 worker 1"]
    waits, *workers = ([view["batches"][entry[7]][:2] for entry in lane["slices"]] for lane in view["lanes"])
    taken = page.report["ranks"][0]["loaders"][0]["batches"]
    assert len(waits) == taken and sum(map(len, workers)) >= taken
    assert all(index % 2 == worker for worker, batches in enumerate(workers) for _, index in batches)


def test_folders_and_user_are_left_out_unless_asked_for(inject, written, run_dir, tmp_path):
    folder = tmp_path / "secret folder of mine"
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(LOADER.read_text())
    done = inject([sys.executable, script, "--batches", 30, "--workers", 1])
    assert done.returncode == 0, done.stderr
    page = written(run_dir)
    assert "secret" not in page.text and str(tmp_path) not in page.text and str(ROOT) not in page.text
    assert page.data["report"]["job"]["user"] is None and "train.py" in page.text
    full = written(run_dir, "--full-paths")
    assert str(script) in full.text and full.data["report"] == full.report


def test_the_file_is_its_owners(gpuwatch, recording, tmp_path):
    page = recording("video-pageable")
    assert page.path.stat().st_mode & 0o777 == 0o600
    older = tmp_path / "report.html"
    older.write_text("an older one")  # that anybody may read
    trace = write_trace(tmp_path / "trace.json", ["kernel"], 30, 10)
    subprocess.run([gpuwatch, "analyze", trace, "--html", older], check=True, capture_output=True, timeout=60)
    assert older.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_is_one_sentence(gpuwatch, tmp_path):
    trace = write_trace(tmp_path / "trace.json", ["kernel"], 30, 10)
    for options in (["--html", tmp_path / "none/file"], ["--html", "/dev/full"], ["--full-paths"]):
        done = subprocess.run([gpuwatch, "analyze", trace, *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "html" in done.stderr


def test_nothing_of_a_trace_can_end_its_element(written, tmp_path):
    page = written(write_trace(tmp_path / "hostile.json", HOSTILE, 30, 10))
    assert page.text.count("</script>") == 3
    assert not re.search(r"<(img|svg)|<!--<", page.text)
    assert any("<img" in name for name in page.data["names"])


def test_a_page_needs_nothing_from_elsewhere(recording):
    text = recording("video-pageable").text
    markup = re.sub(r"<script.*?</script>|<style.*?</style>|<pre.*?</pre>", "", text, flags=re.DOTALL)
    assert not re.search(r"(src|href)=(?!\"#)", markup)
    assert "sourceMappingURL" not in text and "@import" not in text and "url(" not in text
    assert "default-src 'none'" in text and "unsafe" not in text.split("</head>")[0].split("<style>")[0]
    assert "Permission is hereby granted" in text  # the license of the charts library
