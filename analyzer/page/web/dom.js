// SPDX-License-Identifier: Apache-2.0
// Elements of the page. Text of a report goes in as text nodes only, so that none of it can become markup.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

export function byId(id) {
  return document.getElementById(id);
}

export function paragraph(text, className = "") {
  return element("p", { className }, text);
}

// columns: [title, is a number]
export function table(caption, columns, rows) {
  const head = columns.map(([title, isNumber]) => element("th", { scope: "col", className: isNumber ? "number" : "" }, title));
  const body = rows.map((row) =>
    element("tr", {}, ...row.map((cell, i) => element(i ? "td" : "th", { ...(i ? {} : { scope: "row" }), className: columns[i][1] ? "number" : "" }, cell))),
  );
  const made = element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
  return element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption }, made);
}

export function details(summary, ...children) {
  return element("details", {}, element("summary", {}, summary), ...children);
}

// A label with the choices; calls back with the index of the chosen one.
export function chooser(label, titles, choose) {
  const select = element("select", { "aria-label": label }, ...titles.map((title, i) => element("option", { value: String(i) }, title)));
  select.addEventListener("change", () => choose(Number(select.value)));
  return element("label", { className: "chooser" }, label, " ", select);
}

// Names of the style sheet's colors.
export function colorName(bottleneck) {
  return `--${bottleneck.replaceAll(" ", "-").toLowerCase()}`;
}

// As of now, for what is drawn: light and dark differ.
export function styleOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function legend(bottlenecks) {
  const entries = bottlenecks.map((name) => {
    const mark = element("span", { className: "mark", "aria-hidden": "true" });
    mark.style.background = `var(${colorName(name)})`;
    return element("li", {}, mark, name);
  });
  return element("ul", { className: "legend" }, ...entries);
}

// A file from a disk has no clipboard in some browsers: then the old way.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
