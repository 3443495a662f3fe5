// Asks every second what is new, and shows what changed without disturbing whoever reads.

const PAUSE = 700; // milliseconds between questions; a round is shown within two seconds
const AWAY = 5000; // while nobody looks
const live = { ticked: null, rows: [], shown: "" };

async function ask(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

async function follow() {
  try {
    live.rows = (await ask("runs.json")).runs;
    live.ticked ??= new Set(started(live.rows).map((row) => row.name));
    showRuns();
    const wanted = live.rows.filter((row) => live.ticked.has(row.name));
    const stamp = JSON.stringify(wanted.map((row) => [row.name, row.stamp]));
    if (stamp !== live.shown) {
      await showReport(wanted);
      live.shown = stamp;
    }
    say("");
  } catch {
    say("The server does not answer. Is fedskew watch still running?");
  }
  setTimeout(follow, document.hidden ? AWAY : PAUSE);
}

// At first the runs that are going on; if there are none, all.
function started(rows) {
  const going = rows.filter((row) => row.state === "running");
  return going.length ? going : rows;
}

function say(text) {
  const status = document.getElementById("status");
  if (status.textContent !== text) status.textContent = text;
}

function showRuns() {
  const body = document.getElementById("runs");
  const present = new Map([...body.rows].map((row) => [row.dataset.name, row]));
  for (const run of live.rows) {
    const row = present.get(run.name) ?? body.appendChild(newRow(run.name));
    present.delete(run.name);
    row.querySelector("input").checked = live.ticked.has(run.name);
    row.dataset.state = run.state;
    ["method", "seed", "rounds", "global", "personal", "state"].forEach((key, i) => {
      const cell = row.cells[i + 1];
      if (cell.textContent !== run[key]) cell.textContent = run[key];
    });
  }
  for (const gone of present.values()) gone.remove();
  if (!live.rows.length) say("No run yet. Start one, for example with fedskew demo.");
}

function newRow(name) {
  const row = document.createElement("tr");
  row.dataset.name = name;
  const label = row.insertCell().appendChild(document.createElement("label"));
  const box = label.appendChild(document.createElement("input"));
  box.type = "checkbox";
  box.onchange = () => tick((run) => (run === name ? box.checked : live.ticked.has(run)));
  label.append(` ${name}`);
  for (let i = 0; i < 6; i++) row.insertCell();
  return row;
}

function tick(wanted) {
  live.ticked = new Set(live.rows.map((row) => row.name).filter(wanted));
  showRuns();
}

async function showReport(rows) {
  const query = new URLSearchParams(rows.map((row) => ["run", row.name]));
  const report = rows.length ? await ask(`report.json?${query}`) : { problem: "Tick a run to see its report." };
  if (report.problem) showProblem(report.problem);
  else await showPage(report);
  document.documentElement.dataset.ready = "yes";
}

function showProblem(text) {
  page.figures = {};
  document.getElementById("main").replaceChildren(Object.assign(document.createElement("p"), { className: "aside", textContent: text }));
}

async function showPage(report) {
  const main = document.getElementById("main");
  const focus = placeOf(main, document.activeElement);
  const plots = new Map([...main.querySelectorAll("[data-figure]")].map((f) => [f.dataset.figure, f.querySelector(".plot")]));
  document.getElementById("facts").textContent = report.facts.join(" · ");
  document.getElementById("nav").innerHTML ||= report.nav;
  main.innerHTML = report.html; // escaped by the server's templates
  for (const figure of main.querySelectorAll("[data-figure]")) {
    const kept = plots.get(figure.dataset.figure);
    if (kept) figure.querySelector(".plot").replaceWith(kept);
  }
  await show(report);
  refocus(main, focus);
}

// Where an element is: its place among its siblings, from the main element down.
function placeOf(main, element) {
  const path = [];
  for (let at = element; at && at !== main; at = at.parentElement) {
    if (!main.contains(at)) return null;
    path.unshift([...at.parentElement.children].indexOf(at));
  }
  return path.length ? path : null;
}

function refocus(main, path) {
  const element = path?.reduce((at, index) => at?.children[index], main);
  element?.focus({ preventScroll: true });
}

for (const button of document.querySelectorAll("[data-tick]")) {
  const states = new Map([["all", () => true], ["none", () => false], ["running", (row) => row.state === "running"]]);
  button.onclick = () => {
    const wanted = states.get(button.dataset.tick);
    const names = new Set(live.rows.filter(wanted).map((row) => row.name));
    tick((name) => names.has(name));
  };
}
page.lazy = true;
follow();
