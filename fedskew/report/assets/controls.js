// Choices, sliders, legends, saving and copying.

function bindControls() {
  for (const figure of document.querySelectorAll("[data-figure]")) bindFigure(figure, figure.dataset.figure);
  for (const button of document.querySelectorAll("[data-copy]")) button.onclick = () => copy(button);
}

function bindFigure(figure, id) {
  const chosen = (page.chosen[id] ??= {});
  for (const control of figure.querySelectorAll("[data-control]")) {
    restore(control, chosen[control.dataset.control]);
    if (control.type !== "radio" || control.checked) choose(control, chosen);
    control.oninput = () => { choose(control, chosen); draw(id); };
  }
  for (const entry of figure.querySelectorAll("[data-series]")) {
    entry.setAttribute("aria-pressed", String(!page.hidden.has(entry.dataset.series)));
    entry.onclick = () => toggle(entry.dataset.series);
  }
  for (const button of figure.querySelectorAll("[data-save]")) button.onclick = () => save(figure, id, button.dataset.save);
  for (const button of figure.querySelectorAll('[data-action="tsne"]')) button.onclick = () => arrange(figure, id, button);
}

function optionsOf(slider) {
  return JSON.parse(slider.dataset.options);
}

// A live page is written anew: what was chosen stays chosen if it is still offered.
function restore(control, value) {
  if (value === undefined) return;
  if (control.type === "radio") control.checked = control.value === value;
  else if (control.type === "range") {
    const options = optionsOf(control);
    const at = options.findIndex(([key]) => key === value);
    const followed = page.chosen.atEnd?.[control.id] ?? true;
    if (at >= 0 && !followed) control.value = String(at);
  } else if ([...control.options].some((option) => option.value === value)) control.value = value;
}

function choose(control, chosen) {
  if (control.type === "range") {
    const options = optionsOf(control);
    const [value, label] = options[Number(control.value)];
    chosen[control.dataset.control] = value;
    (page.chosen.atEnd ??= {})[control.id] = Number(control.value) === options.length - 1;
    control.parentElement.querySelector(`output[for="${CSS.escape(control.id)}"]`).textContent = label;
    control.setAttribute("aria-valuetext", label);
  } else chosen[control.dataset.control] = control.value;
}

function toggle(series) {
  if (!page.hidden.delete(series)) page.hidden.add(series);
  for (const entry of document.querySelectorAll("[data-series]")) {
    if (entry.dataset.series === series) entry.setAttribute("aria-pressed", String(!page.hidden.has(series)));
  }
  drawAll();
}

function save(figure, id, form) {
  const box = figure.querySelector(".plot");
  if (form === "svg") {
    const height = page.figures[id].height;
    Plotly.downloadImage(box, { format: "svg", filename: id, width: box.clientWidth, height });
    return;
  }
  const { data = [], layout } = currentView(id) ?? {};
  const titled = (axis) => layout?.[`${axis}axis`].title.text || axis;
  const rows = [["series", titled("x"), titled("y"), "value", "from", "to"], ...data.flatMap(traceRows)];
  const filled = rows[0].map((_, column) => rows.slice(1).some((row) => (row[column] ?? "") !== ""));
  const lines = rows.map((row) => filled.flatMap((is, column) => (is ? [csvCell(row[column])] : [])).join(","));
  download(`${id}.csv`, "text/csv", lines.join("\n") + "\n");
}

function traceRows(trace) {
  if (trace.hoverinfo === "skip") return [];
  if (trace.z) return trace.z.flatMap((row, i) => row.map((value, j) => ["", trace.x?.[j] ?? j, trace.y?.[i] ?? i, value]));
  const sizes = Array.isArray(trace.marker?.size) ? trace.marker.size : [];
  const long = trace.x ?? trace.y;
  return long.map((_, i) => [trace.name, trace.x?.[i], trace.y?.[i], sizes[i], ...ends(trace, i)]);
}

// Where a bar of error begins and ends.
function ends({ error_x: bar, x }, i) {
  if (!bar || x[i] === null) return [];
  const end = (length, sign) => (length === null ? null : Number((x[i] + sign * length).toPrecision(6)));
  return [end((bar.arrayminus ?? bar.array)[i], -1), end(bar.array[i], 1)];
}

function csvCell(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "number" ? String(value) : String(value).replace(/^[=+\-@\t\r]/, "'$&");
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
  } catch {
    const area = document.createElement("textarea");
    area.value = button.dataset.copy;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}
