"use strict";
// Shows the view of each figure that its controls name. All views were made beforehand; nothing is computed here.

const PRINTED = 700; // width of a figure on paper, in CSS pixels
const page = { figures: {}, hidden: new Set(), chosen: {}, width: null };

const FONT = { family: 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif', size: 13, color: "#1b1f24" };
const AXIS = { automargin: true, gridcolor: "#e3e7eb", linecolor: "#8c959f", zerolinecolor: "#c3cad1", title: { standoff: 8 } };
const OPTIONS = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };

function axis(own) {
  return { ...AXIS, fixedrange: true, ...own, title: { ...AXIS.title, ...(own && own.title) } };
}

function layoutOf(view, height) {
  const layout = {
    font: FONT, height, autosize: page.width === null, showlegend: false, hovermode: "closest", dragmode: false,
    paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", margin: { l: 8, r: 16, t: 12, b: 8 }, bargap: 0.25,
    ...view.layout, xaxis: axis(view.layout.xaxis), yaxis: axis(view.layout.yaxis),
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
  const shown = view ? view.data.filter((trace) => !page.hidden.has(trace.meta)) : [];
  if (!shown.length) {
    Plotly.purge(box);
    box.innerHTML = '<p class="empty">Nothing was measured for this choice.</p>';
    return Promise.resolve();
  }
  if (box.querySelector(".empty")) box.replaceChildren();
  return Plotly.react(box, shown, layoutOf(view, page.figures[id].height), OPTIONS);
}

function drawAll() {
  return Promise.all(Object.keys(page.figures).map(draw));
}

function show(payload) {
  page.figures = payload.figures;
  bindControls();
  bindTables();
  return drawAll();
}

// A chart keeps its size when the window turns into paper, so it is drawn anew at the width of paper.
function paper(on) {
  page.width = on ? PRINTED : null;
  drawAll();
}
window.addEventListener("beforeprint", () => paper(true));
window.addEventListener("afterprint", () => paper(false));
