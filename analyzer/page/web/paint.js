// SPDX-License-Identifier: Apache-2.0
// Draws lanes of slices on a canvas.
import { colorName, styleOf } from "./dom.js";
import { tickWords } from "./format.js";

export const RULER = 20, LABEL = 15, ROW = 15, GAP = 5; // pixels
export const [BEGIN, LENGTH, NAME, DEPTH, TONE, COUNT, COVERED] = [0, 1, 2, 3, 4, 5, 6]; // of a slice
const LEAST_TEXT = 30; // pixels that a slice must have for a name
const FONT = "11px system-ui, sans-serif";

// lanes: view, range, toX, height, tops, lane and slice that are chosen, matches of a search (lanes.js)
export function paintLanes(lanes, canvas, area) {
  const colors = lanes.page.bottlenecks.map((name) => styleOf(colorName(name)));
  const style = { text: styleOf("--text"), muted: styleOf("--muted"), line: styleOf("--line"), ink: styleOf("--ink") };
  canvas.save();
  canvas.textBaseline = "middle";
  paintRuler(lanes, canvas, area, style);
  lanes.view.lanes.forEach((lane, i) => paintLane(lanes, canvas, area, lane, i, colors, style));
  canvas.restore();
}

function paintRuler(lanes, canvas, area, style) {
  const [from, to] = lanes.range;
  const least = (to - from) / Math.max(2, Math.floor(area.w / 110));
  const unit = 10 ** Math.floor(Math.log10(least));
  const tick = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= least);
  canvas.font = FONT;
  for (let i = Math.ceil(from / tick); i * tick <= to; ++i) {
    const x = lanes.toX(i * tick);
    canvas.fillStyle = style.line;
    canvas.fillRect(x, 0, 1, lanes.height);
    canvas.fillStyle = style.muted;
    canvas.fillText(tickWords(i * tick, tick), x + 3, RULER / 2);
  }
  if (lanes.view.step_ns === undefined) return;
  canvas.fillStyle = style.text; // where the step begins and ends
  for (const time of [0, lanes.view.step_ns]) canvas.fillRect(lanes.toX(time), 0, 1, lanes.height);
}

function paintLane(lanes, canvas, area, lane, index, colors, style) {
  const top = lanes.tops[index];
  canvas.font = index === lanes.lane ? `bold ${FONT}` : FONT;
  canvas.fillStyle = style.text;
  canvas.fillText(lane.name, area.x + 2, top + LABEL / 2);
  canvas.font = FONT;
  const drawnUntil = []; // by depth: what ends within a pixel that is drawn already is skipped
  for (const slice of lane.slices) {
    const from = Math.max(lanes.toX(slice[BEGIN]), area.x);
    const to = Math.min(lanes.toX(slice[BEGIN] + slice[LENGTH]), area.x + area.w);
    if (to < area.x || from > area.x + area.w || to <= (drawnUntil[slice[DEPTH]] ?? -1)) continue;
    const width = Math.max(to - from, 1);
    drawnUntil[slice[DEPTH]] = from + width;
    paintSlice(lanes, canvas, slice, { from, width, y: top + LABEL + slice[DEPTH] * ROW }, colors, style);
  }
}

function paintSlice(lanes, canvas, slice, { from, width, y }, colors, style) {
  const isFaint = lanes.matches && !lanes.matches.names.has(slice[NAME]);
  const isGroup = slice[COUNT] > 1;
  canvas.globalAlpha = isFaint ? 0.15 : isGroup ? 0.55 : 1;
  canvas.fillStyle = colors[slice[TONE]];
  canvas.fillRect(from, y, width > 3 ? width - 0.5 : width, ROW - 1);
  canvas.globalAlpha = isFaint ? 0.4 : 1;
  if (width >= LEAST_TEXT) {
    canvas.save();
    canvas.beginPath();
    canvas.rect(from, y, width - 2, ROW);
    canvas.clip();
    canvas.fillStyle = isGroup || isFaint ? style.text : style.ink;
    canvas.fillText(lanes.titleOf(slice), from + 3, y + ROW / 2);
    canvas.restore();
  }
  canvas.globalAlpha = 1;
  if (slice === lanes.chosen) {
    canvas.strokeStyle = style.text;
    canvas.lineWidth = 2;
    canvas.strokeRect(from, y, width, ROW - 1);
  }
}
