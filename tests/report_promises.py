# SPDX-License-Identifier: Apache-2.0
"""What every report must keep, whatever the job. Each report that a test reads goes through broken_promises()."""

NAMED_BY = {
    "input-bound": "data loading",
    "host-bound": "host work",
    "copy-bound": "exposed copies",
    "comm-bound": "communication",
}
NEEDS_NO_CAUSE = {"compute", "device.unobserved", "sched"}  # the job's own work; not observed; what others took
LEAST_SHARE = 0.05  # of the step
COVERED = 0.5  # of a category's time
NO_GAIN = 1.03  # times: rules call less no gain
ROUNDING = 1.001


def complaints(report):
    return [finding for finding in report["findings"] if finding["severity"] != "info"]


def says(report, words):
    return any(words in sentence for sentence in report["limits"])


def unexplained(report, rank):
    """Large categories that neither a finding nor a sentence is about. Rows without enough steps conclude nothing."""
    if report["verdict"]["id"] in ("too-short", "no-training") or len(report["ranks"]) > 1:
        return
    for row in rank["attribution"]:
        category = row["category"]
        covered = sum(finding["lost_share"] for finding in complaints(report) if category in finding["explains"])
        if row["share"] < LEAST_SHARE or category in NEEDS_NO_CAUSE or covered >= COVERED * row["share"]:
            continue
        if not says(report, f"No rule explains {100 * row['share']:.0f}% of each step"):
            yield f"nothing is said about {category}, {100 * row['share']:.1f}% of the step"


def sums(rank):
    total = sum(row["ns"] for row in rank["attribution"])
    if total != rank["wall_ns"]:
        yield f"categories add up to {total} ns of {rank['wall_ns']}"


def verdict(report):
    first = next(iter(complaints(report)), None)
    bound_by = NAMED_BY.get(report["verdict"]["id"])
    if report["verdict"]["id"] == "healthy" and first and first["bottleneck"] != "waiting for a core":
        yield f"healthy, with {first['id']}"
    # What the run loses between its steps is about none of their bottlenecks: the verdict names it as well.
    is_named = first and first["title"].lower() in report["verdict"]["sentence"].lower()
    if first and bound_by and first["bottleneck"] != bound_by and not is_named and not says(report, "Change 1 is not about"):
        yield f"the verdict names {bound_by}, the first finding is {first['id']}, about {first['bottleneck']}"


def gains(report):
    for finding in report["findings"]:
        if finding["ceiling"] and finding["ceiling"]["speedup"] < 1:
            yield f"{finding['id']} may at most lose"
        for prediction in (finding["prediction"], finding["alone"]):
            if prediction and not prediction["low"] <= prediction["expected"] * ROUNDING <= prediction["high"] * ROUNDING**2:
                yield f"{finding['id']}: expected value outside of its interval"
        if report["together"] and finding["alone"] and not finding["conditional"]:
            if report["together"]["expected"] > finding["alone"]["expected"] * NO_GAIN:
                yield f"everything together gains less than {finding['id']} alone"


def broken_promises(report):
    broken = [*verdict(report), *gains(report)]
    for rank in report["ranks"]:
        broken += [*sums(rank), *unexplained(report, rank)]
    return broken
