// SPDX-License-Identifier: Apache-2.0
// What the terminal report says too: verdict, findings, where the time goes, kernels, trust and limits.
import { byId, colorName, copyText, details, element, legend, paragraph, table } from "./dom.js";
import { count, milliseconds, nanoseconds, percent, plural, threeDigits, times } from "./format.js";

export function showHead(page) {
  const { report } = page;
  const shown = report.ranks[page.shown_rank];
  const script = report.job.script ? report.job.script.split("/").pop() : "a training job";
  document.title = `${script}: gpuwatch report`;
  byId("title").textContent = script;
  const ranks = new Set(report.ranks.map((rank) => rank.rank)).size;
  const facts = [
    ranks === report.ranks.length ? plural(ranks, "rank") : `${plural(ranks, "rank")} on ${report.ranks.length} GPUs`,
    shown && shown.device !== "cpu" ? shown.device : null,
    shown?.framework,
    shown && shown.steps.recorded ? `${plural(shown.steps.recorded, "step")} of ${milliseconds(shown.steps.mean_ms)}` : null,
    shown?.steps.samples_per_s ? `${count(Math.round(shown.steps.samples_per_s))} samples/s` : null,
    report.job.start ? report.job.start.replace("T", " ").replace("Z", " UTC") : null,
  ];
  byId("subtitle").textContent = facts.filter(Boolean).join(" · ");
  byId("made-by").textContent = `Made by gpuwatch ${report.versions.gpuwatch}. This file needs no network and sends nothing.`;
}

export function showVerdict(page) {
  const [head, ...rest] = page.report.verdict.sentence.split(":");
  const words = rest.length ? [element("strong", {}, `${head}:`), rest.join(":")] : [head];
  byId("verdict").append(element("p", { className: `verdict ${page.report.verdict.id}` }, ...words));
}

// Now, and predicted, as one line and as a picture of it.
function gain(prediction, words) {
  const unit = prediction.metric === "step_ms" ? milliseconds : (value) => `${count(value)} samples/s`;
  const { speedup } = prediction;
  const sentence = `${unit(prediction.now)} → ${unit(prediction.expected)}${prediction.metric === "step_ms" ? " a step" : ""} (${unit(prediction.low)}–${unit(prediction.high)}), ` +
    `${times(speedup.expected)} (${times(speedup.low).slice(0, -1)}–${times(speedup.high)})`;
  const whole = Math.max(prediction.now, prediction.high) || 1;
  const bar = element("div", { className: "gain", "aria-hidden": "true" });
  for (const [name, from, to] of [["now", 0, prediction.now], ["expected", 0, prediction.expected], ["range", prediction.low, prediction.high]]) {
    const part = element("span", { className: name });
    part.style.left = `${(100 * from) / whole}%`;
    part.style.width = `${(100 * (to - from)) / whole}%`;
    bar.append(part);
  }
  return element("div", { className: "predicted" }, element("p", {}, element("b", {}, `${words} `), sentence), bar);
}

function evidenceWords(evidence) {
  const number = Number.isInteger(evidence.value) ? count(evidence.value) : threeDigits(evidence.value);
  const value = evidence.unit.startsWith("%") ? number + evidence.unit : `${number} ${evidence.unit}`.trim();
  return `${evidence.what}: ${value}`;
}

function fixOf(fix) {
  const place = fix.location ? ` (${fix.location})` : "";
  const text = fix.snippet ?? `${fix.summary}${place}`;
  const status = element("span", { className: "copied", role: "status" });
  const button = element("button", { type: "button", className: "copy", "aria-label": `Copy the fix: ${fix.summary}` }, "Copy");
  button.addEventListener("click", async () => {
    await copyText(text);
    status.textContent = "Copied";
    setTimeout(() => (status.textContent = ""), 2000);
  });
  return element("div", { className: "fix" }, element("p", {}, element("b", {}, fix.summary), place),
    fix.snippet ? element("pre", { tabIndex: 0, "aria-label": "Code of the fix" }, fix.snippet) : null, button, " ", status);
}

// bound: how much faster at most, where nothing is predicted
function findingOf(finding, number, bound) {
  const about = [
    finding.severity,
    finding.lost_share > 0 ? `${percent(finding.lost_share)} of the time` : null,
    finding.ranks.length ? `rank ${finding.ranks.join(", ")}` : null,
    finding.alternative ? "another way to the same time" : null,
    finding.conditional ? "on a condition" : null,
  ].filter(Boolean);
  const made = element("article", { className: `finding ${finding.severity}` });
  made.append(element("h3", {}, `${number ? `${number}. ` : ""}${finding.title}`), paragraph(about.join(" · "), "about"));
  if (finding.fix.summary) made.append(fixOf(finding.fix));
  if (finding.prediction) made.append(gain(finding.prediction, number > 1 ? "Predicted, after those above:" : "Predicted:"));
  else if (bound !== null) made.append(paragraph(`Gain: up to ${times(bound)}`));
  if (finding.alone && finding.prediction && finding.alone.expected !== finding.prediction.expected) made.append(gain(finding.alone, "Applied alone:"));
  made.append(element("ul", { className: "evidence" }, ...finding.evidence.map((evidence) => element("li", {}, evidenceWords(evidence)))));
  const assumptions = finding.prediction?.assumptions ?? [];
  if (assumptions.length) made.append(details("What the prediction assumes", element("ul", {}, ...assumptions.map((text) => element("li", {}, text)))));
  made.append(paragraph(`More: gpuwatch explain ${finding.id}`, "about"));
  return made;
}

export function showFindings(page) {
  const { report } = page;
  const complaints = report.findings.filter((finding) => finding.severity !== "info");
  const notes = report.findings.filter((finding) => finding.severity === "info");
  const place = byId("findings");
  if (!complaints.length) place.append(paragraph("Nothing to change was found."));
  const shown = (finding, number) => place.append(findingOf(finding, number, page.bounds[report.findings.indexOf(finding)]));
  complaints.forEach((finding, i) => shown(finding, i + 1));
  if (report.together) place.append(gain(report.together, "All of them together:"));
  notes.forEach((finding) => shown(finding, 0));
  for (const [words, { on, changes }] of [["May gain", report.may_gain], ["Gains nothing", report.no_gain]])
    if (changes.length) place.append(paragraph(`${words}${on ? ` on ${on}` : ""}: ${changes.join("; ")}`));
}

// Bottlenecks in the order of the report, with the share of the step that is theirs.
function sharesOf(page, rank) {
  const shares = new Map(page.bottlenecks.map((name) => [name, 0]));
  for (const row of rank.attribution) {
    const { bottleneck } = page.categories[row.category];
    shares.set(bottleneck, shares.get(bottleneck) + row.share);
  }
  return [...shares].filter(([, share]) => share > 0);
}

function stackedBar(page, rank, label) {
  const shares = sharesOf(page, rank);
  const words = shares.map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  const bar = element("div", { className: "stacked", role: "img", "aria-label": `${label}: ${words}` });
  for (const [name, share] of shares) {
    const part = element("span", { title: `${name} ${percent(share)}` }, share > 0.08 ? percent(share) : "");
    part.style.width = `${share * 100}%`;
    part.style.background = `var(${colorName(name)})`;
    bar.append(part);
  }
  return bar;
}

function causesOf(page, rank, label) {
  const rows = [...rank.attribution].sort((a, b) => b.ns - a.ns).map((row) => {
    const { words, bottleneck } = page.categories[row.category];
    return [words, bottleneck, milliseconds(row.share * rank.steps.mean_ms), percent(row.share)];
  });
  return table(`Causes, ${label}`, [["cause"], ["counted as"], ["a step", true], ["share", true]], rows);
}

export function showTime(page) {
  const place = byId("time");
  const ranks = page.report.ranks.map((rank, i) => [rank, i]).filter(([rank]) => rank.wall_ns > 0);
  if (!ranks.length) {
    place.append(paragraph("No training steps were recorded."));
    return;
  }
  place.append(legend([...new Set(ranks.flatMap(([rank]) => sharesOf(page, rank).map(([name]) => name)))]));
  for (const [rank, i] of ranks) {
    const label = page.labels[i], group = rank.device === "cpu" ? "" : ` on ${rank.device}`;
    place.append(element("h3", {}, `${label[0].toUpperCase()}${label.slice(1)}${group}: ${milliseconds(rank.steps.mean_ms)} a step`), stackedBar(page, rank, label));
    const rows = page.rows[i].map((row) => [row.label, milliseconds(row.ms), percent(row.share), row.causes]);
    place.append(table(`Where the time goes, ${label}`, [["part"], ["a step", true], ["share", true], ["causes"]], rows));
    place.append(details(`All causes of ${label}`, causesOf(page, rank, label)));
  }
  for (const { straggler } of page.report.rank_groups)
    if (straggler) place.append(paragraph(`Rank ${straggler.rank} is the straggler: ${milliseconds(straggler.own_ms)} of work a step, the others ` +
      `${milliseconds(straggler.others_ms)}; they wait ${milliseconds(straggler.others_wait_ms)} for it${straggler.by ? ` (${straggler.by})` : ""}.`));
}

export function showKernels(page) {
  const place = byId("kernels");
  const ranks = page.report.ranks.map((rank, i) => [rank, page.labels[i]]).filter(([rank]) => rank.device_work);
  if (!ranks.length) place.append(paragraph("No GPU work was recorded."));
  for (const [rank, label] of ranks) {
    const { kernel_classes: classes, kernels, communication, launch_queue: queue } = rank.device_work;
    if (ranks.length > 1) place.append(element("h3", {}, label[0].toUpperCase() + label.slice(1)));
    const rows = classes.map((row) => {
      const bar = element("span", { className: "bar", "aria-hidden": "true" });
      bar.style.width = `${Math.min(row.share, 1) * 10}em`;
      return [page.kernel_classes[row.class] ?? row.class, element("span", {}, percent(row.share), " ", bar), nanoseconds(row.ns), nanoseconds(row.alone_ns), count(row.count)];
    });
    place.append(table(`Kernel classes, ${label}`, [["class"], ["share of the steps"], ["time", true], ["nothing else running", true], ["kernels", true]], rows));
    const names = kernels.map((row) => [row.name, page.kernel_classes[row.class] ?? row.class, percent(row.share), nanoseconds(row.ns), count(row.count)]);
    if (names.length) place.append(details(`The ${kernels.length} kernels that take most time`,
      table(`Kernels, ${label}`, [["kernel"], ["class"], ["share", true], ["time", true], ["launches", true]], names)));
    if (communication) place.append(paragraph(`Communication: ${nanoseconds(communication.ns)}, ${percent(communication.hidden_share)} of it hidden behind compute.`));
    if (queue) place.append(paragraph(`A kernel starts ${nanoseconds(queue.median_ns)} after its launch (median); the queue of launches was empty for ${percent(queue.empty_share)} of them.`));
  }
}

function leftOut(page) {
  const lanes = [...page.views, ...page.loaders].flatMap((view) => view.lanes);
  const longest = Math.max(0, ...lanes.map((lane) => lane.drawn_together_ns));
  const views = page.views.length;
  const words = [`The timeline has ${plural(views, "view")} of chosen steps, not the whole run; gpuwatch analyze --steps A:B --html FILE chooses others, --perfetto FILE writes all of it.`];
  if (longest) words.push(`In crowded lanes, operations that follow each other are drawn together where they are shorter than ${nanoseconds(longest)} or less; their number and total are kept.`);
  const missing = [...page.views, ...page.loaders].reduce((sum, view) => sum + view.lanes_left_out, 0);
  if (missing) words.push(`${plural(missing, "lane")} of threads and workers are left out.`);
  const points = Math.max(1, ...page.series.map((series) => series.steps_a_point));
  if (points > 1) words.push(`A point of the step chart is the mean of ${points} steps.`);
  words.push(page.has_full_paths ? "Paths and the user's name are kept in full." :
    "Folders of files and the user's name are left out; names of hosts, scripts, functions and kernels are kept. Read it before you pass it on.");
  return words;
}

export function showTrust(page) {
  const { report } = page;
  const { trace, coverage, versions } = report;
  const facts = [
    page.confidence ? `Confidence ${page.confidence}.` : null,
    report.overhead.estimated_share === null ? null : `Recording took about ${threeDigits(100 * report.overhead.estimated_share)}% of the time.`,
    `${percent(trace.recorded_share)} of the steps are recorded: ${count(trace.events)} events over ${threeDigits(trace.duration_s)} s; ${count(trace.lost_events)} records dropped.`,
    coverage.launches_matched_share === null ? null : `${percent(coverage.launches_matched_share)} of the kernels are matched to their launches.`,
  ].filter(Boolean);
  const place = byId("trust");
  place.append(element("ul", {}, ...facts.map((fact) => element("li", {}, fact))));
  place.append(element("h3", {}, "What could not be seen"),
    report.limits.length ? element("ul", {}, ...report.limits.map((text) => element("li", {}, text))) : paragraph("Nothing is known to be missing."));
  place.append(element("h3", {}, "What this file leaves out"), element("ul", {}, ...leftOut(page).map((text) => element("li", {}, text))));
  const sources = Object.entries(coverage.sources);
  if (sources.length) place.append(details("Sources of the recording", table("Sources", [["source"], ["state"]], sources)));
  const known = Object.entries(versions).filter(([, version]) => version);
  place.append(details("Versions", table("Versions", [["of"], ["version"]], known)));
}
