// SPDX-License-Identifier: Apache-2.0
// Lanes of slices over time: drawn here; the range, its zoom and its pan are a chart's of dygraphs.
import { colorName, element, styleOf } from "./dom.js";
import { nanoseconds, plural } from "./format.js";
import { clampedRange, interactionModel, zoomed } from "./steps.js";

const RULER = 20, LABEL = 15, ROW = 15, GAP = 5;
const LEAST_TEXT = 30; // pixels that a slice must have for a name
const [BEGIN, LENGTH, NAME, DEPTH, TONE, COUNT, COVERED] = [0, 1, 2, 3, 4, 5, 6]; // of a slice

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

  // ---- drawing

  paint(canvas, area, graph) {
    const range = graph.xAxisRange();
    this.range = range;
    this.rangeText.textContent = `${nanoseconds(range[0])} to ${nanoseconds(range[1])}`;
    this.chart.dataset.from = String(Math.round(range[0]));
    this.chart.dataset.to = String(Math.round(range[1]));
    this.toX = (time) => area.x + ((time - range[0]) / (range[1] - range[0])) * area.w;
    const colors = this.page.bottlenecks.map((name) => styleOf(colorName(name)));
    const style = { text: styleOf("--text"), muted: styleOf("--muted"), line: styleOf("--line"), ink: styleOf("--ink") };
    canvas.save();
    canvas.textBaseline = "middle";
    this.paintRuler(canvas, area, range, style);
    this.view.lanes.forEach((lane, i) => this.paintLane(canvas, area, lane, i, colors, style));
    canvas.restore();
  }

  paintRuler(canvas, area, range, style) {
    const most = Math.max(2, Math.floor(area.w / 110));
    const raw = (range[1] - range[0]) / most;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const tick = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= raw);
    canvas.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(range[0] / tick) * tick; time <= range[1]; time += tick) {
      canvas.fillStyle = style.line;
      canvas.fillRect(this.toX(time), 0, 1, this.height);
      canvas.fillStyle = style.muted;
      canvas.fillText(nanoseconds(Math.abs(time) < tick / 2 ? 0 : time), this.toX(time) + 3, RULER / 2);
    }
    if (this.view.step_ns === undefined) return;
    canvas.fillStyle = style.text; // where the step begins and ends
    for (const time of [0, this.view.step_ns]) canvas.fillRect(this.toX(time), 0, 1, this.height);
  }

  paintLane(canvas, area, lane, index, colors, style) {
    const top = this.tops[index];
    canvas.font = `${index === this.lane ? "bold " : ""}11px system-ui, sans-serif`;
    canvas.fillStyle = style.text;
    canvas.fillText(lane.name, area.x + 2, top + LABEL / 2);
    canvas.font = "11px system-ui, sans-serif";
    const drawnUntil = []; // by depth: what ends within a pixel that is drawn already is skipped
    for (const slice of lane.slices) {
      const from = Math.max(this.toX(slice[BEGIN]), area.x), to = Math.min(this.toX(slice[BEGIN] + slice[LENGTH]), area.x + area.w);
      if (to < area.x || from > area.x + area.w || to <= (drawnUntil[slice[DEPTH]] ?? -1)) continue;
      const width = Math.max(to - from, 1);
      drawnUntil[slice[DEPTH]] = from + width;
      const y = top + LABEL + slice[DEPTH] * ROW;
      const isFaint = this.matches && !this.matches.names.has(slice[NAME]);
      canvas.globalAlpha = isFaint ? 0.15 : slice[COUNT] > 1 ? 0.55 : 1;
      canvas.fillStyle = colors[slice[TONE]];
      canvas.fillRect(from, y, width > 3 ? width - 0.5 : width, ROW - 1);
      canvas.globalAlpha = isFaint ? 0.4 : 1;
      if (width >= LEAST_TEXT) this.paintName(canvas, slice, from, y, width, slice[COUNT] > 1 ? style.text : style.ink);
      canvas.globalAlpha = 1;
      if (slice === this.chosen) {
        canvas.strokeStyle = style.text;
        canvas.lineWidth = 2;
        canvas.strokeRect(from, y, width, ROW - 1);
      }
    }
  }

  paintName(canvas, slice, from, y, width, color) {
    canvas.save();
    canvas.beginPath();
    canvas.rect(from, y, width - 2, ROW);
    canvas.clip();
    canvas.fillStyle = color;
    canvas.fillText(this.titleOf(slice), from + 3, y + ROW / 2);
    canvas.restore();
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
