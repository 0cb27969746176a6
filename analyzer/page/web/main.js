// SPDX-License-Identifier: Apache-2.0
// Builds the page from its data (schema gpuwatch.page.v1).
import { byId } from "./dom.js";
import { showSteps } from "./steps.js";
import { showFindings, showHead, showKernels, showTime, showTrust, showVerdict } from "./summary.js";
import { showTimeline } from "./timeline.js";
import { showWorkers } from "./workers.js";

// No others: they would set styles and markup that the page's policy forbids.
Dygraph.PLUGINS = [Dygraph.Plugins.Grid, Dygraph.Plugins.Axes];

function showAll() {
  const page = JSON.parse(byId("data").textContent);
  showHead(page);
  showVerdict(page);
  showFindings(page);
  showTime(page);
  showKernels(page);
  showTrust(page);
  const timeline = showTimeline(page);
  const workers = showWorkers(page);
  const steps = showSteps(page, (view) => {
    timeline.choose(view);
    byId("timeline").scrollIntoView();
  });
  const charts = [steps, workers, timeline?.lanes].filter(Boolean);
  const redraw = () => charts.forEach((chart) => chart.draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Paper is white, whatever the screen is.
  for (const [event, isPrinting] of [["beforeprint", true], ["afterprint", false]])
    addEventListener(event, () => {
      document.documentElement.classList.toggle("printing", isPrinting);
      redraw();
    });
  document.documentElement.dataset.ready = "yes";
}

showAll();
