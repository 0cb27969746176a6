# SPDX-License-Identifier: Apache-2.0
"""Reports with several rows: ranks, and GPUs of one process, which are not mixed up in any table or file."""

import gpuwatch as package
import prometheus_client.openmetrics.parser
import pytest
from gpuwatch import export

pytestmark = pytest.mark.beside_others


def cause_samples(text):
    """{(row, category): (sample's labels, seconds)}"""
    (family,) = (family for family in prometheus_client.openmetrics.parser.text_string_to_metric_families(text) if family.name == "gpuwatch_cause_seconds")
    return {(int(sample.labels["row"]), sample.labels["category"]): (sample.labels, sample.value) for sample in family.samples}


def said_seconds(said):
    return {(row, cause["category"]): cause["seconds"] for row, rank in enumerate(said["ranks"]) for cause in rank["attribution"]}


@pytest.mark.parametrize("job", ["two_ranks", "two_gpus"])
def test_each_row_keeps_its_numbers(job, request):
    read = request.getfixturevalue(job)
    ranks, steps = read.said["ranks"], read.report.steps()
    assert len(ranks) == 2
    causes = {(cause["row"], cause["category"]): cause["seconds"] for cause in read.report.rows("causes")}
    exported = {key: value for key, (_, value) in cause_samples(export.openmetrics(read.report)).items()}
    assert causes == exported == said_seconds(read.said)
    for row, rank in enumerate(ranks):
        of_row = steps[steps["row"] == row]
        assert list(of_row["length_ns"]) == rank["step_times"]["length_ns"] and set(of_row["rank"]) == {rank["rank"]}
        for category in {cause["category"] for rank in ranks for cause in rank["attribution"]}:
            own = rank["step_times"]["attribution_ns"].get(category, [0] * len(of_row))
            assert list(of_row[f"{category}_ns"]) == own
        assert [kernel["ns"] for kernel in read.report.rows("kernels") if kernel["row"] == row] == [kernel["ns"] for kernel in rank["device_work"]["kernels"]]


def test_ranks_get_their_uuids(two_ranks):
    samples = cause_samples(export.openmetrics(two_ranks.report, {0: "GPU-a", 1: "GPU-b"}))
    assert {(labels["rank"], labels["UUID"]) for labels, _ in samples.values()} == {("0", "GPU-a"), ("1", "GPU-b")}


def test_a_uuid_cannot_be_that_of_several_gpus(two_gpus):
    with pytest.raises(package.Error, match="^UUID of rank 0: that rank has several GPUs$"):
        export.openmetrics(two_gpus.report, {0: "GPU-a"})


@pytest.mark.parametrize(("job", "names"), [("two_ranks", ["rank0", "rank1"]), ("two_gpus", ["rank0-row0", "rank0-row1"])])
def test_tensorboard_has_a_run_for_each(job, names, request, tmp_path):
    written = export.write_tensorboard(request.getfixturevalue(job).report, tmp_path / "runs")
    assert written == [str(tmp_path / "runs" / name) for name in names]


def test_a_notebook_shows_both_ranks(two_ranks):
    shown = two_ranks.report._repr_html_()
    for rank in two_ranks.said["ranks"]:
        largest = max(rank["attribution"], key=lambda cause: cause["share"])
        assert f"rank {rank['rank']}, {rank['device']}" in shown and f"{largest['share']:.1%}" in shown
