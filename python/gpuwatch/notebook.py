# SPDX-License-Identifier: Apache-2.0
"""A report at a glance: verdict, largest causes, findings. As text for a prompt, as HTML for a notebook.

Everything that comes from the trace is escaped. Colors are the notebook's, so that it can be read in the dark too."""

from html import escape

MOST_ROWS, MOST_CAUSES, MOST_FINDINGS = 4, 6, 5
CELL = "<td style='text-align:left'>"


def more(count, shown, what):
    return f"and {count - shown} more {what}" if count > shown else ""


def step_words(finding):
    """"5.92 → 3.87 ms (3.72–4.02 ms)", of the prediction as it is."""
    said = finding["prediction"]
    if not said:
        return ""
    unit = "ms a step" if said["metric"] == "step_ms" else "samples/s"
    return f"{said['now']:.3g} → {said['expected']:.3g} {unit} ({said['low']:.3g}–{said['high']:.3g})"


def text(report):
    findings = report["findings"]
    lines = [f"<gpuwatch report: {report['verdict']['sentence']}"]
    for place, finding in enumerate(findings[:MOST_FINDINGS], 1):
        words = step_words(finding)
        lines.append(f"  {place}. {finding['fix']['summary'] or finding['title']}" + (f": {words}" if words else ""))
    if len(findings) > MOST_FINDINGS:
        lines.append("  " + more(len(findings), MOST_FINDINGS, "findings"))
    return "\n".join(lines) + ">"


def div(*lines):
    return "".join(f"<div>{line}</div>" for line in lines if line)


def row_name(rank):
    return f"rank {rank['rank']}, {rank['device']}"


def causes_html(ranks):
    """A line for each of the first rank's largest causes, a column for each rank."""
    shown = ranks[:MOST_ROWS]
    shares = [{entry["category"]: entry["share"] for entry in rank["attribution"]} for rank in shown]
    if not shown or not shares[0]:
        return ""
    largest = sorted(shares[0], key=shares[0].get, reverse=True)[:MOST_CAUSES]
    head = "".join(f"<th>{escape(row_name(rank))}</th>" for rank in shown)
    lines = [f"<tr><th>share of the step</th>{head}</tr>"]
    for category in largest:
        cells = "".join(f"<td>{of_rank.get(category, 0):.1%}</td>" for of_rank in shares)
        lines.append(f"<tr>{CELL}{escape(category)}</td>{cells}</tr>")
    left_out = [more(len(shares[0]), MOST_CAUSES, "causes"), more(len(ranks), MOST_ROWS, "ranks")]
    return f"<table>{''.join(lines)}</table>{div(*left_out)}"


def findings_html(findings):
    items = []
    for finding in findings[:MOST_FINDINGS]:
        fix = finding["fix"]
        where = f" ({fix['location']})" if fix["location"] else ""
        words = [finding["title"], fix["summary"] + where, step_words(finding)]
        items.append("<li>" + "<br>".join(escape(word) for word in words if word) + "</li>")
    return (f"<ol>{''.join(items)}</ol>" if items else "") + div(more(len(findings), MOST_FINDINGS, "findings"))


def html(report):
    limits = len(report["limits"])
    note = div(f"{limits} limit{'s' if limits > 1 else ''} of what could be seen: .limits") if limits else ""
    verdict = f"<b>{escape(report['verdict']['sentence'])}</b>"
    return f"<div>{verdict}{causes_html(report['ranks'])}{findings_html(report['findings'])}{note}</div>"
