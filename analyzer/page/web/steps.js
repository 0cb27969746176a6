// SPDX-License-Identifier: Apache-2.0
// The length of each step over the run, and what it went into, as stacked areas (dygraphs).
import { byId, chooser, colorName, element, legend, paragraph, styleOf } from "./dom.js";
import { milliseconds, plural } from "./format.js";

const PHASES = { startup: "start-up", evaluation: "evaluation", checkpoint: "checkpoint", epoch_change: "change of epoch" };

// Clear of scrolling: one finger moves the page, two fingers the chart.
export function interactionModel() {
  const model = { ...Dygraph.defaultInteractionModel };
  for (const name of ["touchstart", "touchmove"]) {
    const usual = model[name];
    model[name] = (event, chart, context) => event.touches.length > 1 && usual(event, chart, context);
  }
  return model;
}

// Keeps the range within the whole; both are [from, to].
export function clampedRange([from, to], [least, most]) {
  const length = Math.min(Math.max(to - from, (most - least) * 1e-6), most - least);
  const begin = Math.min(Math.max(from, least), most - length);
  return [begin, begin + length];
}

export function zoomed([from, to], factor, at = (from + to) / 2) {
  return [at - (at - from) * factor, at + (to - at) * factor];
}

class StepChart {
  constructor(page, place, chooseStep) {
    this.page = page;
    this.chooseStep = chooseStep;
    this.chart = element("div", { className: "chart steps-chart", tabIndex: 0, role: "group", "aria-describedby": "steps-help" });
    this.info = element("p", { className: "info", role: "status" });
    this.legendPlace = element("div");
    this.words = element("ul", { className: "changes" });
    place.append(this.words, this.legendPlace, this.chart, this.info);
    place.append(element("p", { className: "help", id: "steps-help" },
      "Drag to zoom, double-click for all. Keys: ← → choose a step, + − zoom, 0 all, Enter opens the nearest step of the timeline. Triangles mark the steps that the timeline has."));
    this.chart.addEventListener("keydown", (event) => this.onKey(event));
  }

  show(series) {
    this.series = series;
    this.parts = Object.keys(series.parts_ms);
    this.row = -1;
    this.words.replaceChildren(...series.changes.map((text) => element("li", {}, text)));
    this.legendPlace.replaceChildren(legend(this.parts));
    const longest = Math.max(...series.longest_ms), shortest = Math.min(...series.shortest_ms);
    this.chart.setAttribute("aria-label", `${this.page.labels[series.row]}: length of ${plural(series.steps, "step")} over the run, from ${milliseconds(shortest)} to ${milliseconds(longest)}`);
    this.draw();
  }

  draw() {
    const { series, parts } = this;
    const rows = series.at_s.map((at, i) => [at, ...parts.map((name) => series.parts_ms[name][i])]);
    const range = this.graph?.xAxisRange();
    const kept = this.drawn === series ? range : null;
    this.graph?.destroy();
    this.drawn = series;
    this.graph = new Dygraph(this.chart, rows, {
      labels: ["time", ...parts],
      colors: parts.map((name) => styleOf(colorName(name))),
      stackedGraph: true,
      stepPlot: true,
      fillAlpha: 0.75,
      legend: "never",
      includeZero: true,
      dateWindow: kept,
      interactionModel: interactionModel(),
      axisLineColor: styleOf("--line"),
      gridLineColor: styleOf("--line"),
      highlightCircleSize: 3,
      axes: {
        x: { axisLabelFormatter: (value) => `${Number(value.toFixed(3))} s`, valueFormatter: String, ticker: Dygraph.numericTicks },
        y: { axisLabelFormatter: (value) => `${Number(value.toPrecision(4))} ms`, valueFormatter: String, axisLabelWidth: 60 },
      },
      highlightCallback: (event, x, points, row) => this.tell(row),
      clickCallback: (event, x) => this.openNear(x),
      underlayCallback: (canvas, area, graph) => this.paintUnder(canvas, area, graph),
    });
  }

  tell(row) {
    if (row < 0 || row >= this.series.at_s.length) return;
    this.row = row;
    const { series } = this;
    const first = row * series.steps_a_point, offset = this.page.first_step;
    const last = Math.min(first + series.steps_a_point, series.steps) - 1;
    const total = this.parts.reduce((sum, name) => sum + series.parts_ms[name][row], 0);
    const parts = this.parts.map((name) => [series.parts_ms[name][row], name]).filter(([ms]) => ms >= total / 200).sort((a, b) => b[0] - a[0]);
    const spread = last > first ? `, ${milliseconds(series.shortest_ms[row])} to ${milliseconds(series.longest_ms[row])}` : "";
    const phase = series.phases.find(({ begin_s: begin, end_s: end }) => begin <= series.at_s[row] + total / 1e3 && end >= series.at_s[row]);
    this.info.textContent = `${last > first ? `steps ${first + offset} to ${last + offset}, mean` : `step ${first + offset}`}: ${milliseconds(total)}${spread} ` +
      `(${parts.map(([ms, name]) => `${name} ${milliseconds(ms)}`).join(", ")})${phase ? `, ${PHASES[phase.kind] ?? phase.kind}` : ""}`;
  }

  timeOf(step) {
    return this.series.at_s[Math.floor(step / this.series.steps_a_point)];
  }

  openNear(x) {
    const views = this.page.views.map((view, i) => [view, i]).filter(([view]) => view.row === this.series.row && view.end_step - view.begin_step === 1);
    views.sort(([a], [b]) => Math.abs(this.timeOf(a.begin_step) - x) - Math.abs(this.timeOf(b.begin_step) - x));
    if (views.length) this.chooseStep(views[0][1]);
  }

  paintUnder(canvas, area, graph) {
    canvas.fillStyle = styleOf("--phase");
    for (const phase of this.series.phases) {
      const from = Math.max(graph.toDomXCoord(phase.begin_s), area.x), to = Math.min(graph.toDomXCoord(phase.end_s), area.x + area.w);
      if (to > area.x && from < area.x + area.w) canvas.fillRect(from, area.y, Math.max(to - from, 1), area.h);
    }
    canvas.fillStyle = styleOf("--text");
    for (const view of this.page.views) {
      if (view.row !== this.series.row || view.end_step - view.begin_step !== 1) continue;
      const x = graph.toDomXCoord(this.timeOf(view.begin_step));
      canvas.beginPath();
      canvas.moveTo(x - 5, area.y);
      canvas.lineTo(x + 5, area.y);
      canvas.lineTo(x, area.y + 8);
      canvas.fill();
    }
    canvas.strokeStyle = styleOf("--muted");
    if (this.series.steps_a_point > 1)
      this.series.at_s.forEach((at, i) => {
        const x = graph.toDomXCoord(at);
        canvas.beginPath();
        canvas.moveTo(x, Math.max(graph.toDomYCoord(this.series.longest_ms[i]), area.y));
        canvas.lineTo(x, graph.toDomYCoord(this.series.shortest_ms[i]));
        canvas.stroke();
      });
  }

  onKey(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    const range = this.graph.xAxisRange(), whole = this.graph.xAxisExtremes();
    if (move) {
      this.row = Math.min(Math.max(this.row + move, 0), this.series.at_s.length - 1);
      const at = this.series.at_s[this.row];
      if (at < range[0] || at > range[1]) this.setRange([at - (range[1] - range[0]) / 2, at + (range[1] - range[0]) / 2]);
      this.graph.setSelection(this.row);
      this.tell(this.row);
    } else if (event.key === "+" || event.key === "=") this.setRange(zoomed(range, 0.5, this.row >= 0 ? this.series.at_s[this.row] : undefined));
    else if (event.key === "-") this.setRange(zoomed(range, 2));
    else if (event.key === "0" || event.key === "Home") this.setRange(whole);
    else if (event.key === "Enter") this.openNear(this.series.at_s[Math.max(this.row, 0)]);
    else return;
    event.preventDefault();
  }

  setRange(range) {
    this.graph.updateOptions({ dateWindow: clampedRange(range, this.graph.xAxisExtremes()) });
  }
}

export function showSteps(page, chooseStep) {
  const place = byId("steps");
  const all = page.series.map((series, row) => ({ ...series, row })).filter((series) => series.steps > 0);
  if (!all.length) {
    place.append(paragraph("No training steps were recorded."));
    return null;
  }
  all.sort((a, b) => (b.row === page.shown_rank) - (a.row === page.shown_rank));
  if (all.length > 1) place.append(chooser("Rank", all.map((series) => page.labels[series.row]), (i) => chart.show(all[i])));
  const chart = new StepChart(page, place, chooseStep);
  chart.show(all[0]);
  return chart;
}
