"use strict";
// Shows the view of each figure that its controls name. All views were made beforehand; nothing is computed here.

const PRINTED = 700; // width of a figure on paper, in CSS pixels
const page = { figures: {}, hidden: new Set(), chosen: {}, width: null, lazy: false, due: new Set() };

const FONT = { family: 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif', size: 13, color: "#1b1f24" };
const AXIS = { automargin: true, gridcolor: "#e3e7eb", linecolor: "#8c959f", zerolinecolor: "#c3cad1", title: { standoff: 8 } };
const OPTIONS = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };

function axis(own, pixels) {
  const title = { ...AXIS.title, text: wrapped(own.title.text, pixels) };
  return { ...AXIS, fixedrange: true, ...own, title, ...(own.ticktext && { ticktext: inert(own.ticktext) }) };
}

// Names come from data and may hold anything: plotly.js reads a few tags in text, so none may be left.
function inert(value) {
  if (Array.isArray(value)) return value.map(inert);
  return typeof value === "string" ? value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;") : value;
}

function inertTrace(trace) {
  const out = { ...trace };
  for (const key of ["name", "x", "y", "text", "customdata"]) if (key in out) out[key] = inert(out[key]);
  return out;
}

// A title that is longer than its axis is broken between words.
function wrapped(text, pixels) {
  const most = Math.max(12, Math.floor(pixels / 7.5));
  const lines = [""];
  for (const word of inert(text).split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push(word);
    else lines[lines.length - 1] = `${lines.at(-1)} ${word}`.trim();
  }
  return lines.join("<br>");
}

function layoutOf(view, height, width) {
  const layout = {
    font: FONT, height, autosize: page.width === null, showlegend: false, hovermode: "closest", dragmode: false,
    paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", margin: { l: 8, r: 16, t: 12, b: 8 }, bargap: 0.25,
    ...view.layout, xaxis: axis(view.layout.xaxis, width - 90), yaxis: axis(view.layout.yaxis, height - 90),
  };
  if (page.width !== null) layout.width = page.width;
  return layout;
}

function currentView(id) {
  const figure = page.figures[id];
  return figure.views[figure.controls.map((name) => page.chosen[id][name]).join("|")];
}

function draw(id) {
  const box = document.querySelector(`[data-figure="${CSS.escape(id)}"] .plot`);
  const view = currentView(id);
  for (const button of box.parentElement.querySelectorAll('[data-action="tsne"]')) button.textContent = OFFER;
  const shown = view ? view.data.filter((trace) => !page.hidden.has(trace.meta)) : [];
  if (!shown.length) {
    Plotly.purge(box);
    box.innerHTML = '<p class="empty">Nothing was measured for this choice.</p>';
    return Promise.resolve();
  }
  if (box.querySelector(".empty")) box.replaceChildren();
  return paint(box, id, shown, view.layout);
}

function paint(box, id, traces, layout) {
  const height = page.figures[id].height;
  const width = page.width ?? box.clientWidth;
  return Plotly.react(box, traces.map(inertTrace), layoutOf({ layout }, height, width), OPTIONS);
}

// One after the other with a pause between, so that the page can be read and scrolled meanwhile.
async function drawAll() {
  page.due = new Set(Object.keys(page.figures));
  for (const id of page.due) {
    if (page.lazy && !isNear(id)) continue;
    page.due.delete(id);
    await draw(id);
    await new Promise((resume) => setTimeout(resume));
  }
}

function isNear(id) {
  const box = document.getElementById(`figure-${id}`).getBoundingClientRect();
  return box.bottom > -300 && box.top < window.innerHeight + 300;
}

// What a live page left out comes when it is scrolled to.
function drawDue() {
  for (const id of page.due) {
    if (isNear(id)) {
      page.due.delete(id);
      draw(id);
    }
  }
}
window.addEventListener("scroll", drawDue, { passive: true });

function show(payload) {
  page.figures = payload.figures;
  for (const box of document.querySelectorAll("[data-figure] > .plot")) {
    box.style.minHeight = `${page.figures[box.parentElement.dataset.figure].height}px`; // nothing jumps later
  }
  bindControls();
  bindTables();
  return drawAll();
}

// Charts follow the window's width by themselves, but for the line breaks of their titles.
let resized = null;
let breadth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === breadth) return;
  breadth = window.innerWidth;
  clearTimeout(resized);
  resized = setTimeout(drawAll, 200);
});

// A chart keeps its size when the window turns into paper, so it is drawn anew at the width of paper.
function paper(on) {
  page.width = on ? PRINTED : null;
  Object.keys(page.figures).forEach(draw); // at once: paper does not wait
}
window.addEventListener("beforeprint", () => paper(true));
window.addEventListener("afterprint", () => paper(false));
