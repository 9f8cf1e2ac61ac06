"use strict";
const table = document.getElementById("runs");
if (table) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => row.cells[column].dataset.value;
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
const reveal = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.closest("details")) { target.closest("details").open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", reveal);
reveal();
