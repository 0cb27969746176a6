// SPDX-License-Identifier: Apache-2.0
// The timeline of a chosen step.
import { byId, chooser, details, element, legend, paragraph, table } from "./dom.js";
import { nanoseconds, percent, plural } from "./format.js";
import { Lanes } from "./lanes.js";

// For those who cannot look at lanes: what is in them.
export function tableOfLanes(view, caption) {
  const rows = view.lanes.map((lane) => {
    const operations = lane.slices.reduce((sum, slice) => sum + (slice[5] ?? 1), 0);
    const busy = lane.slices.filter((slice) => slice[3] === 0).reduce((sum, slice) => sum + (slice[6] ?? slice[1]), 0);
    return [lane.name, plural(operations, "operation"), nanoseconds(busy), percent(busy / (view.end_ns - view.begin_ns)), lane.drawn_together_ns ? `shorter than ${nanoseconds(lane.drawn_together_ns)}` : "no"];
  });
  return details("The same as a table", table(caption, [["lane"], ["operations"], ["time", true], ["share", true], ["drawn together"]], rows));
}

function searchOf(lanes) {
  const input = element("input", { type: "search", id: "timeline-search", autocomplete: "off", spellcheck: false });
  const found = element("span", { role: "status", className: "found" });
  const tell = () => {
    const number = lanes.search(input.value);
    found.textContent = number === null ? "" : `${plural(number, "match", "matches")}; Enter goes to the next`;
  };
  input.addEventListener("input", tell);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") lanes.nextMatch();
  });
  return [element("label", { className: "chooser" }, "Search ", input), found];
}

// Returns {lanes, choose(index)}; null without a recorded step.
export function showTimeline(page) {
  const place = byId("timeline");
  if (!page.views.length) {
    place.append(paragraph("No training steps were recorded."));
    return null;
  }
  const several = new Set(page.views.map((view) => view.row)).size > 1;
  const titles = page.views.map((view) => (several ? `${page.labels[view.row]}, ${view.title}` : view.title));
  const choice = chooser("Step", titles, (i) => choose(i));
  const controls = element("div", { className: "controls" }, choice);
  const note = paragraph("", "note-below");
  const tables = element("div");
  place.append(controls, legend(page.bottlenecks.filter((name, i) => page.views.some((view) => view.lanes.some((lane) => lane.slices.some((slice) => slice[4] === i))))));
  const lanes = new Lanes(page, place, { id: "timeline", label: "Timeline of the chosen step", of: "operation", several: "operations" }, (slice) => ({ title: page.names[slice[2]] }));
  const search = searchOf(lanes);
  controls.append(...search);
  place.append(note, tables);
  const choose = (i) => {
    const view = page.views[i];
    choice.querySelector("select").value = String(i);
    lanes.show(view);
    search[0].querySelector("input").value = "";
    search[1].textContent = "";
    const together = view.lanes.filter((lane) => lane.drawn_together_ns);
    note.textContent = together.length
      ? `Drawn together (paler), because there are very many of them: ${together.map((lane) => `in ${lane.name}, operations shorter than ${nanoseconds(lane.drawn_together_ns)}`).join("; ")}.`
      : "Every recorded operation of the step is drawn.";
    if (view.lanes_left_out) note.textContent += ` ${plural(view.lanes_left_out, "further lane")} of threads and workers are left out.`;
    tables.replaceChildren(tableOfLanes(view, `Lanes of ${titles[i]}`));
  };
  choose(0);
  return { lanes, choose };
}
