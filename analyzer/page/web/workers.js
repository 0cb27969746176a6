// SPDX-License-Identifier: Apache-2.0
// The loader's workers over the run, each with its batches.
import { byId, chooser, element, legend, paragraph } from "./dom.js";
import { milliseconds } from "./format.js";
import { Lanes } from "./lanes.js";
import { tableOfLanes } from "./timeline.js";

// of: what loader_views.cpp keeps of a batch
function describeBatch([epoch, index, fetch, cpu, reading, collate, delay, ready, waited]) {
  const parts = [`made in ${milliseconds(fetch)}`];
  for (const [ms, words] of [[cpu, "on a CPU"], [reading, "reading"], [collate, "collating"], [delay, "waiting for a core"]]) if (ms > 0) parts.push(`${milliseconds(ms)} ${words}`);
  if (waited !== null) parts.push(ready >= 0 ? `ready ${milliseconds(ready)} before the training thread asked for it` : `the training thread waited ${milliseconds(waited)} for it`);
  return { title: `batch ${index}`, more: `Epoch ${epoch}: ${parts.join(", ")}` };
}

export function showWorkers(page) {
  const place = byId("workers");
  if (!page.loaders.length) {
    place.append(paragraph("No DataLoader with recorded batches was seen."));
    return null;
  }
  const tables = element("div");
  let view = page.loaders[0];
  const choose = (i) => {
    view = page.loaders[i];
    lanes.show(view);
    tables.replaceChildren(tableOfLanes(view, `Loader of rank ${view.rank}`));
  };
  if (page.loaders.length > 1) place.append(chooser("Rank", page.loaders.map((of) => `rank ${of.rank}`), choose));
  place.append(legend(["data loading"]));
  const lanes = new Lanes(page, place, { id: "workers", label: "Loader workers", of: "batch", several: "batches" }, (slice) =>
    slice[7] === undefined ? { title: "batch" } : describeBatch(view.batches[slice[7]]));
  place.append(tables);
  choose(0);
  return lanes;
}
