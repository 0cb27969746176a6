// SPDX-License-Identifier: Apache-2.0
// Lanes of slices over time: the range, its zoom and its pan by mouse and fingers are a chart's of dygraphs, drawing is
// in paint.js.
import { element } from "./dom.js";
import { nanoseconds, plural } from "./format.js";
import { BEGIN, COUNT, COVERED, DEPTH, GAP, LABEL, LENGTH, NAME, ROW, RULER, paintLanes } from "./paint.js";
import { clampedRange, interactionModel, zoomed } from "./steps.js";

export class Lanes {
  // describe(slice, lane): what is said of a slice of one operation; words: {id, label, of, several}, of the page and for people
  constructor(page, place, words, describe) {
    this.page = page;
    this.describe = describe;
    this.words = words;
    this.help = element("p", { className: "help", id: `${words.id}-help` },
      "Drag to zoom, Shift and drag to move, Ctrl and wheel to zoom, double-click for all; two fingers on a touch screen. " +
      "Keys: ← → move, + − zoom, 0 all, ↑ ↓ choose a lane, N and P the next and the previous operation in it, Enter zooms to it.");
    this.chart = element("div", { className: "chart lanes", id: `${words.id}-chart`, tabIndex: 0, role: "group", "aria-describedby": this.help.id });
    this.info = element("p", { className: "info", role: "status" });
    this.rangeText = element("span", { className: "range" });
    place.append(this.toolbar(), this.chart, this.info, this.help);
    this.chart.addEventListener("keydown", (event) => this.onKey(event));
    this.chart.addEventListener("pointermove", (event) => this.tell(this.sliceAt(event) ?? this.chosen));
    this.chart.addEventListener("click", (event) => this.choose(this.sliceAt(event)));
    this.chart.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
  }

  toolbar() {
    const buttons = [
      ["−", "Zoom out", () => this.zoom(2)],
      ["+", "Zoom in", () => this.zoom(0.5)],
      ["←", "Move to earlier", () => this.pan(-0.25)],
      ["→", "Move to later", () => this.pan(0.25)],
      ["All", "Show all", () => this.setRange(this.whole)],
    ].map(([text, label, act]) => {
      const button = element("button", { type: "button", "aria-label": `${label}: ${this.words.label}` }, text);
      button.addEventListener("click", act);
      return button;
    });
    return element("div", { className: "toolbar" }, ...buttons, this.rangeText);
  }

  show(view) {
    this.view = view;
    this.whole = [view.begin_ns, view.end_ns];
    this.range = this.whole;
    this.lane = 0;
    this.chosen = null;
    this.matches = null;
    this.info.textContent = "";
    let y = RULER;
    this.tops = view.lanes.map((lane) => {
      const top = y;
      y += LABEL + ROW * (1 + lane.slices.reduce((most, slice) => Math.max(most, slice[DEPTH]), 0)) + GAP;
      return top;
    });
    this.height = y;
    this.chart.style.height = `${y}px`;
    this.chart.setAttribute("aria-label", `${this.words.label}: ${view.lanes.map((lane) => `${lane.name}, ${plural(lane.slices.length, this.words.of, this.words.several)}`).join("; ")}`);
    this.draw();
  }

  draw() {
    this.graph?.destroy();
    const none = { drawAxis: false, drawGrid: false };
    this.graph = new Dygraph(this.chart, [[this.whole[0], 0], [this.whole[1], 0]], {
      labels: ["time", "lanes"],
      dateWindow: this.range,
      valueRange: [0, 1],
      legend: "never",
      strokeWidth: 0,
      highlightCircleSize: 0,
      xRangePad: 0,
      axes: { x: none, y: none },
      interactionModel: interactionModel(),
      underlayCallback: (canvas, area, graph) => this.paint(canvas, area, graph),
    });
  }

  paint(canvas, area, graph) {
    this.range = graph.xAxisRange();
    this.rangeText.textContent = `${nanoseconds(this.range[0])} to ${nanoseconds(this.range[1])}`;
    [this.chart.dataset.from, this.chart.dataset.to] = this.range.map((time) => String(Math.round(time)));
    this.toX = (time) => area.x + ((time - this.range[0]) / (this.range[1] - this.range[0])) * area.w;
    paintLanes(this, canvas, area);
  }

  // ---- what is chosen

  titleOf(slice) {
    return slice[COUNT] > 1 ? `${slice[COUNT]} ${this.words.several}` : this.describe(slice).title;
  }

  textOf(slice) {
    const lane = this.view.lanes.find((of) => of.slices.includes(slice));
    const when = `${nanoseconds(slice[LENGTH])} from ${nanoseconds(slice[BEGIN])}, ${lane.name}`;
    if (!(slice[COUNT] > 1)) {
      const { title, more } = this.describe(slice);
      return `${title}: ${when}${more ? `. ${more}` : ""}`;
    }
    return `${slice[COUNT]} ${this.words.several} drawn together: ${nanoseconds(slice[COVERED])} of ${when}; the longest is ${this.describe(slice).title}`;
  }

  tell(slice) {
    this.info.textContent = slice ? this.textOf(slice) : "";
  }

  choose(slice) {
    this.chosen = slice ?? null;
    if (slice) this.lane = this.view.lanes.findIndex((lane) => lane.slices.includes(slice));
    this.tell(slice);
    this.repaint();
  }

  sliceAt(event) {
    const box = this.chart.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const index = this.tops.findLastIndex((top) => top <= y);
    if (index < 0) return null;
    const depth = Math.floor((y - this.tops[index] - LABEL) / ROW);
    const found = this.view.lanes[index].slices.filter((slice) => slice[DEPTH] === depth && this.toX(slice[BEGIN]) - 1 <= x && Math.max(this.toX(slice[BEGIN] + slice[LENGTH]), this.toX(slice[BEGIN]) + 1) + 1 >= x);
    return found.sort((a, b) => a[LENGTH] - b[LENGTH]).at(-1) ?? null;
  }

  // The next operation of the lane whose name matches, if one is searched for.
  step(direction) {
    const slices = this.view.lanes[this.lane].slices;
    const isCandidate = (slice) => !this.matches || this.matches.names.has(slice[NAME]);
    let i = slices.indexOf(this.chosen);
    if (i < 0) i = slices.findIndex((slice) => slice[BEGIN] >= this.range[0]) - (direction > 0 ? 1 : 0);
    do i += direction;
    while (slices[i] && !isCandidate(slices[i]));
    if (!slices[i]) return;
    this.choose(slices[i]);
    this.bringIntoRange(slices[i]);
  }

  bringIntoRange(slice) {
    const middle = slice[BEGIN] + slice[LENGTH] / 2, half = (this.range[1] - this.range[0]) / 2;
    if (middle < this.range[0] || middle > this.range[1]) this.setRange([middle - half, middle + half]);
  }

  // ---- the range

  setRange(range) {
    this.range = clampedRange(range, this.whole);
    this.graph.updateOptions({ dateWindow: this.range });
  }

  repaint() {
    this.graph.updateOptions({});
  }

  zoom(factor, at) {
    this.setRange(zoomed(this.range, factor, at));
  }

  pan(share) {
    const by = (this.range[1] - this.range[0]) * share;
    this.setRange([this.range[0] + by, this.range[1] + by]);
  }

  onWheel(event) {
    if (event.ctrlKey || event.metaKey) {
      const share = (event.clientX - this.chart.getBoundingClientRect().left) / this.chart.clientWidth;
      this.zoom(2 ** (event.deltaY / 200), this.range[0] + share * (this.range[1] - this.range[0]));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.chart.clientWidth);
    else return; // the page scrolls
    event.preventDefault();
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const chosen = this.chosen;
    const acts = {
      ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      0: () => this.setRange(this.whole), Home: () => this.setRange(this.whole),
      ArrowUp: () => this.chooseLane(-1), ArrowDown: () => this.chooseLane(1),
      n: () => this.step(1), p: () => this.step(-1),
      Enter: () => chosen && this.setRange([chosen[BEGIN] - chosen[LENGTH] * 0.2, chosen[BEGIN] + chosen[LENGTH] * 1.2]),
      Escape: () => this.choose(null),
    };
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    act();
    event.preventDefault();
  }

  chooseLane(direction) {
    this.lane = Math.min(Math.max(this.lane + direction, 0), this.view.lanes.length - 1);
    this.chosen = null;
    this.info.textContent = this.view.lanes[this.lane].name;
    this.repaint();
  }

  // Others become faint. Returns how many operations match; null: no search.
  search(text) {
    const wanted = text.trim().toLowerCase();
    this.matches = null;
    if (wanted) {
      const names = new Set();
      this.page.names.forEach((name, i) => name.toLowerCase().includes(wanted) && names.add(i));
      this.matches = { names, slices: this.view.lanes.flatMap((lane) => lane.slices.filter((slice) => names.has(slice[NAME]))) };
    }
    this.repaint();
    return this.matches && this.matches.slices.length;
  }

  nextMatch() {
    const slices = this.matches?.slices ?? [];
    if (!slices.length) return;
    const next = slices[(slices.indexOf(this.chosen) + 1) % slices.length];
    this.choose(next);
    this.bringIntoRange(next);
  }
}
