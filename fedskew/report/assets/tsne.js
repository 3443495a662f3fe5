// t-SNE (van der Maaten and Hinton, 2008), exact, on demand: a few hundred points take about a second.

const PERPLEXITY = 20;
const STEPS = 500;
const EXAGGERATED = 120; // steps in which attraction is stronger, so that clusters form

const OFFER = "Arrange by t-SNE";
const RETURN = "Back to PCA";

async function arrange(figure, id, button) {
  if (button.textContent === RETURN) {
    draw(id);
    return;
  }
  const traces = (currentView(id)?.data ?? []).filter((trace) => !page.hidden.has(trace.meta));
  button.disabled = true;
  const points = traces.flatMap((trace) => trace.customdata);
  const steps = tsne(points, Math.min(PERPLEXITY, Math.floor((points.length - 1) / 3)));
  let place = null;
  for (let step = 0; step < STEPS; step++) {
    place = steps.next().value;
    if (step % 50 === 0) {
      button.textContent = `t-SNE ${Math.round((100 * step) / STEPS)} %`;
      await new Promise((resume) => setTimeout(resume));
    }
  }
  let start = 0;
  const moved = traces.map((trace) => {
    const own = place.slice(start, (start += trace.customdata.length));
    return { ...trace, x: own.map((p) => p[0]), y: own.map((p) => p[1]) };
  });
  const layout = { xaxis: { title: { text: "t-SNE, first direction" } }, yaxis: { title: { text: "t-SNE, second direction" } } };
  await paint(figure.querySelector(".plot"), id, moved, layout);
  button.textContent = RETURN;
  button.disabled = false;
}

function* tsne(points, perplexity) {
  const n = points.length;
  const near = affinities(points, perplexity);
  const y = points.map((p) => [p[0] * 1e-2, (p[1] ?? 0) * 1e-2]);
  const speed = y.map(() => [0, 0]);
  const q = new Float64Array(n * n);
  for (let step = 0; ; step++) {
    const sum = kernel(y, q);
    const exaggeration = step < EXAGGERATED ? 4 : 1;
    const momentum = step < EXAGGERATED ? 0.5 : 0.8;
    for (let i = 0; i < n; i++) {
      let gx = 0, gy = 0;
      for (let j = 0; j < n; j++) {
        const k = q[i * n + j];
        const force = 4 * (exaggeration * near[i * n + j] - k / sum) * k;
        gx += force * (y[i][0] - y[j][0]);
        gy += force * (y[i][1] - y[j][1]);
      }
      speed[i] = [momentum * speed[i][0] - 50 * gx, momentum * speed[i][1] - 50 * gy];
    }
    for (let i = 0; i < n; i++) y[i] = [y[i][0] + speed[i][0], y[i][1] + speed[i][1]];
    yield y;
  }
}

function kernel(y, q) {
  const n = y.length;
  let sum = 0;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < i; j++) {
      const k = 1 / (1 + (y[i][0] - y[j][0]) ** 2 + (y[i][1] - y[j][1]) ** 2);
      q[i * n + j] = q[j * n + i] = k;
      sum += 2 * k;
    }
  }
  return sum;
}

function affinities(points, perplexity) {
  const n = points.length;
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    const row = neighbours(points, i, Math.log(perplexity));
    for (let j = 0; j < n; j++) {
      out[i * n + j] += row[j] / (2 * n);
      out[j * n + i] += row[j] / (2 * n);
    }
  }
  return out;
}

// The width of the kernel around a point is found by bisection, so that every point has as many neighbours.
function neighbours(points, i, target) {
  const distances = points.map((p) => p.reduce((sum, value, d) => sum + (value - points[i][d]) ** 2, 0));
  let low = 0, high = Infinity, beta = 1, row = [];
  for (let turn = 0; turn < 50; turn++) {
    row = distances.map((d, j) => (j === i ? 0 : Math.exp(-d * beta)));
    const sum = row.reduce((a, b) => a + b, 0) || 1e-300;
    const entropy = Math.log(sum) + (beta * row.reduce((a, p, j) => a + p * distances[j], 0)) / sum;
    row = row.map((p) => p / sum);
    if (Math.abs(entropy - target) < 1e-4) break;
    if (entropy > target) { low = beta; beta = high === Infinity ? beta * 2 : (beta + high) / 2; }
    else { high = beta; beta = (beta + low) / 2; }
  }
  return row;
}
