"use strict";
const table = document.getElementById("runs");
if (table) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells].slice(1);
  const key = (row, column) => row.cells[column + 1].dataset.value; // the first one is the tick
  const compare = (a, b) => (a === "") - (b === "") || (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const empty = (row) => (key(row, column) === "" ? 1 : 0);
    rows.sort((a, b) => empty(a) - empty(b) || (down ? -1 : 1) * compare(key(a, column), key(b, column)));
    body.append(...rows);
  }));
  const count = document.getElementById("count");
  document.getElementById("filter").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    const shown = rows.filter((row) => !row.hidden).length;
    count.textContent = shown < rows.length ? `${shown} of ${rows.length}` : "";
  });
}
const make = (tag, attributes = {}, ...children) => {
  const svg = ["svg", "path", "text"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};
const roundValues = (low, high, whole) => {
  const power = 10 ** Math.floor(Math.log10((high - low) / 5));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((wide) => (high - low) / wide <= 5 && (wide >= 1 || !whole));
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, number) => Number(((first + number) * step).toPrecision(6)));
};
const chart = (title, lines) => {
  const points = lines.flatMap((line) => line.points);
  const range = (index) => {
    const values = points.map((point) => point[index]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return high > low ? [low, high] : [low - 0.5, high + 0.5];
  };
  const [[left, right], [bottom, top]] = [range(0), range(1)];
  const x = (value) => (48 + (304 * (value - left)) / (right - left)).toFixed(1);
  const y = (value) => (176 - (168 * (value - bottom)) / (top - bottom)).toFixed(1);
  const shown = (value) => (title.endsWith("accuracy") ? `${Number((100 * value).toPrecision(6))} %` : String(value));
  const svg = make("svg", { viewBox: "0 0 360 210", role: "img", "aria-label": title });
  for (const value of roundValues(bottom, top, false)) {
    svg.append(make("path", { class: "grid", d: `M48,${y(value)}H352` }));
    svg.append(make("text", { class: "y", x: 43, y: Number(y(value)) + 3.5 }, shown(value)));
  }
  for (const epoch of roundValues(left, right, true)) svg.append(make("text", { class: "x", x: x(epoch), y: 191 }, String(epoch)));
  svg.append(make("text", { class: "x label", x: 200, y: 207 }, "epoch"));
  const legend = make("span", { class: "legend" });
  for (const line of lines) {
    const path = line.points.map(([epoch, value], index) => `${index ? "L" : "M"}${x(epoch)},${y(value)}`).join("");
    svg.append(make("path", { class: `line c${line.colour}`, d: path }));
    legend.append(make("span", {}, make("i", { class: `key c${line.colour}` }), line.name));
  }
  return make("figure", {}, make("figcaption", {}, title, legend), svg);
};
const comparison = document.getElementById("compare");
const compareTicked = () => {
  const ticked = [...table.tBodies[0].rows].filter((row) => row.cells[0].firstElementChild.checked);
  const runs = ticked.map((row) => JSON.parse(row.dataset.run));
  comparison.hidden = runs.length < 2;
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.curves)))];
  const charts = names.map((name) => [name, runs.map((run, index) => ({ name: run.name, colour: index % 6, points: run.curves[name] || [] })).filter((line) => line.points.length)]);
  comparison.querySelector(".charts").replaceChildren(...charts.filter(([, lines]) => lines.length).map(([name, lines]) => chart(name, lines)));
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))];
  const differing = keys.filter((key) => new Set(runs.map((run) => run.settings[key])).size > 1);
  const row = (cell, first, texts) => make("tr", {}, make("th", {}, first), ...texts.map((text) => make(cell, {}, text ?? "-")));
  comparison.querySelector("thead").replaceChildren(row("th", "setting", runs.map((run) => run.name)));
  comparison.querySelector("tbody").replaceChildren(...differing.map((key) => row("td", key, runs.map((run) => run.settings[key]))));
};
if (table) {
  table.addEventListener("change", compareTicked);
  const wanted = /^#compare((-\d+)+)$/.exec(location.hash);
  if (wanted) {
    for (const number of wanted[1].slice(1).split("-")) {
      const row = table.tBodies[0].rows[number - 1];
      if (row) row.cells[0].firstElementChild.checked = true;
    }
    compareTicked();
    comparison.scrollIntoView();
  }
}
const reveal = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.closest("details")) { target.closest("details").open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", reveal);
reveal();
