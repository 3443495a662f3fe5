// Tables are sorted by pressing a heading; what has no value stays at the end.

const sorted = {};

function bindTables() {
  for (const table of document.querySelectorAll(".table table")) {
    const id = table.closest(".table").id;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.firstElementChild.onclick = () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        sorted[id] = { column, up };
        sortBy(table, column, up);
      };
    });
    if (sorted[id]) sortBy(table, sorted[id].column, sorted[id].up);
  }
}

function sortBy(table, column, up) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return up ? order : -order;
  });
  body.append(...rows.map(([, row]) => row));
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (i === column) head.setAttribute("aria-sort", up ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
}

function valueOf(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const text = cell.textContent.trim();
  return text === "" || text === "–" ? null : text;
}
