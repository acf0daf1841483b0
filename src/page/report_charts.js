/* The charts, drawn by Chart.js: their axes and their look. */
'use strict';

const charts = {};

function draw(id, config) {
  const canvas = $(id);
  if (charts[id]) charts[id].destroy();
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', canvas.closest('.card').querySelector('h3')?.textContent ?? 'bars');
  charts[id] = new Chart(canvas, config);
}

/* Axes end with the data; the last tick has no number if it breaks the even spacing. */
function withoutEnd(x, i, ticks) {
  const odd = i === ticks.length - 1 && i > 1 && Math.abs(ticks[i].value - 2 * ticks[i - 1].value + ticks[i - 2].value) > 1e-9 * ticks[i].value;
  return odd || x > this.max ? null : x >= 1000 ? grouped(x) : +x.toPrecision(6);
}

/* The settings that all charts share. */
function settings(x, y, more = {}) {
  const axis = (a) => ({ grid: { color: look.line, borderColor: look.faint }, ...a,
    ticks: { color: look.soft, maxRotation: 0, autoSkipPadding: 14, ...a.ticks },
    title: { display: !!a.text, text: a.text, color: look.soft, padding: 2 } });
  return { animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
    interaction: { mode: 'nearest', axis: 'x', intersect: false }, ...more,
    scales: { x: axis(x), y: axis(y) },
    plugins: { legend: { display: false }, tooltip: { boxPadding: 4, usePointStyle: true, ...more.tooltip } } };
}

/* ---- curves ---- */

const UNITS = { step: 'steps', time: 'seconds' };
const pairs = (curve, x, column) => (curve[column] || []).map((y, i) => ({ x: curve[x][i], y }))
  .filter((p) => p.x !== null && p.y !== null);

/* The median of a list of numbers. */
function median(list) {
  const sorted = [...list].sort((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/* Means over windows of `width` points around each point; the windows at both ends are shorter. */
function smoothed(points, width) {
  const half = width >> 1;
  return points.map(({ x }, i) => {
    const part = points.slice(Math.max(0, i - half), i + half + 1);
    return { x, y: part.reduce((sum, p) => sum + p.y, 0) / part.length };
  });
}

/* Medians of consecutive windows, each placed at the middle of its window. */
function medians(points, width) {
  const out = [];
  for (let i = 0; i < points.length; i += width) {
    const part = points.slice(i, i + width);
    if (part.length >= width / 2 || out.length === 0) out.push({ x: (part[0].x + part.at(-1).x) / 2, y: median(part.map((p) => p.y)) });
  }
  return out;
}

/* The mean as a line, and a pale band between each point's extremes. */
function lineOf(run, curve, x, column, what, more = {}) {
  const base = { hidden: !run.shown, run, borderColor: run.colour, backgroundColor: run.colour, borderDash: run.dash,
    borderWidth: 1.8, pointRadius: 0, pointHitRadius: 6, pointStyle: run.point, label: what };
  const line = { ...base, data: pairs(curve, x, column), ...more };
  if (!curve[`${column}_min`] || more.pointRadius) return [line];
  const edge = { ...base, borderWidth: 0, isBand: true };
  return [line, { ...edge, data: pairs(curve, x, `${column}_min`), fill: false },
    { ...edge, data: pairs(curve, x, `${column}_max`), fill: '-1', backgroundColor: pale(run.colour, .16) }];
}

/* The step counts of a sweep's runs differ by orders of magnitude, so the axis of steps is logarithmic. */
function curveChart(id, x, y, datasets, digits) {
  const axis = data.sweep && x === 'step' ? { type: 'logarithmic', text: `${UNITS[x]}, logarithmic`, ticks: { callback: (v) => /^[125]0*$/.test(String(v)) ? grouped(v) : null } } :
    { type: 'linear', text: UNITS[x], min: 0, bounds: 'data', ticks: { callback: withoutEnd } };
  const config = settings(axis, y, { tooltip: {
    filter: (item) => !item.dataset.isBand,
    callbacks: {
      title: (items) => items.length ? `${x === 'step' ? 'step' : 'at'} ${+items[0].parsed.x.toPrecision(5)}${x === 'step' ? '' : ' s'}` : '',
      label: (item) => ` ${item.dataset.run.name}, ${item.dataset.label}: ${digits(item.parsed.y)}`,
    } } });
  draw(id, { type: 'line', data: { datasets }, options: config });
}

/* The number of points over which the slider averages: 1, 3, 5, 9, ... */
const smoothing = () => +$('smooth').value === 0 ? 1 : 2 ** +$('smooth').value + 1;

/* Thin, pale lines for the training batches. Over them, if the slider is set, a stronger line of their means. On top,
 * bold points for the test set, which matters most. */
function metricChart(id, x, of) {
  const width = smoothing(), thin = (run) => ({ borderWidth: 1, borderColor: pale(run.colour, width > 1 ? .22 : .5) });
  const most = Math.max(...runs.map((r) => r.epochs.rows)), bold = { borderWidth: 2.4, pointRadius: most > 12 ? 3.2 : 5, pointHoverRadius: 7 };
  const training = runs.flatMap((run) => lineOf(run, run.steps, x, of.train, 'training batch', thin(run)));
  const means = width === 1 ? [] : runs.map((run) => ({ ...lineOf(run, run.steps, x, of.train, `mean of ${width}`, { borderWidth: 1.4, borderColor: pale(run.colour, .85) })[0],
    data: smoothed(pairs(run.steps, x, of.train), width), isSmooth: true }));
  const test = runs.flatMap((run) => lineOf(run, run.epochs, x, of.test, 'test set', bold));
  const datasets = [...training, ...means, ...test].filter((d) => d.data.length > 0);
  datasets.forEach((d, i) => { d.order = datasets.length - i; }); // the last dataset is drawn on top
  curveChart(id, x, of.axis(), datasets, of.digits);
}

/* Where all accuracy axes start: at a multiple of 20 %. */
function leastAccuracy() {
  const all = runs.flatMap((run) => [...(run.steps.accuracy ?? []), ...(run.epochs.test_accuracy ?? [])]).filter((v) => v !== null);
  return Math.floor(5 * Math.min(1, ...all)) / 5;
}

const METRICS = {
  loss: { train: 'loss', test: 'test_loss', digits: (y) => y.toPrecision(4),
    axis: () => ({ type: $('log').checked ? 'logarithmic' : 'linear' }) },
  accuracy: { train: 'accuracy', test: 'test_accuracy', digits: (y) => percent(y, 2),
    axis: () => ({ type: 'linear', min: leastAccuracy(), max: 1, ticks: { callback: (y) => `${Math.round(100 * y)} %` } }) },
};

function drawCurves() {
  for (const name of Object.keys(METRICS))
    for (const x of ['step', 'time']) metricChart(`${name}-${x}`, x, METRICS[name]);
  drawSpeed();
}

/* The speed of individual steps varies with other load on the machine, so show medians over windows. */
function drawSpeed() {
  const widths = new Set();
  const speed = runs.flatMap((run) => {
    const points = pairs(run.steps, 'time', 'samples_per_s'), width = Math.max(5, Math.ceil(points.length / 40));
    if (points.length === 0) return lineOf(run, run.epochs, 'time', 'samples_per_s', 'samples/s', { pointRadius: 3.5 });
    widths.add(width * run.steps.each);
    return [{ ...lineOf(run, run.steps, 'time', 'samples_per_s', `median of ${width * run.steps.each} steps`)[0], data: medians(points, width), pointRadius: 2.5 }];
  }).filter((d) => d.data.length > 0);
  $('window').textContent = widths.size > 0 ? `: medians over ${listed([...widths].sort((a, b) => a - b).map(grouped))} steps` : '';
  $('speed-time-card').hidden = speed.length === 0;
  if (speed.length > 0) curveChart('speed-time', 'time', { type: 'linear', min: 0, ticks: { callback: (y) => grouped(y) } }, speed, grouped);
}

/* ---- speed-up and efficiency: a point for each run, and the ideal ---- */

function scalingChart(id, value, ideal, text, digits) {
  const shown = runs.filter((r) => r[value] !== null), most = Math.max(...shown.map((r) => r.workers), 2);
  const few = Math.min(...shown.map((r) => r.base.workers));
  const points = shown.map((run) => ({ label: run.name, run, hidden: !run.shown, data: [{ x: run.workers, y: run[value] }],
    borderColor: run.colour, backgroundColor: run.colour, pointRadius: 6, pointHoverRadius: 8, borderWidth: 2, pointStyle: run.point }));
  const line = { label: 'ideal', type: 'line', data: ideal(few, most), borderColor: look.soft, borderDash: [5, 4], borderWidth: 1.5,
    pointRadius: 0, pointHitRadius: 0 };
  draw(id, { type: 'scatter', data: { datasets: [...points, line] }, options: settings(
    { type: 'linear', text: 'workers', min: 0, max: most + .5, ticks: { stepSize: most > 16 ? undefined : 1, callback: (x) => Number.isInteger(x) ? x : null } },
    { type: 'linear', min: 0, suggestedMax: value === 'efficiency' ? 1.1 : undefined, ticks: { callback: text } },
    { interaction: { mode: 'nearest', intersect: true }, tooltip: { callbacks: {
      label: (item) => item.dataset.run ? ` ${item.dataset.label}: ${digits(item.parsed.y)} with ${item.parsed.x} worker${item.parsed.x === 1 ? '' : 's'}` : ' ideal' } } }) });
}

function drawScaling() {
  for (const card of document.querySelectorAll('.card.several')) card.hidden = !compared;
  if (!compared) return;
  scalingChart('speed-up', 'speedUp', (few, most) => [{ x: 0, y: 0 }, { x: most + .5, y: (most + .5) / few }], (y) => +y.toFixed(2), (y) => y.toFixed(2));
  scalingChart('efficiency', 'efficiency', (few, most) => [{ x: 0, y: 1 }, { x: most + .5, y: 1 }], (y) => `${Math.round(100 * y)} %`, (y) => percent(y, 1));
}

/* ---- bars ---- */

const short = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

/* Horizontal bars; the canvas gets the height that they need. */
function barChart(id, names, datasets, x, label, part = () => false) {
  const narrow = window.innerWidth < 640, least = $(id).closest('.pair') && !narrow ? 250 : 0;
  $(id).parentElement.style.height = `${Math.max(least, 44 + names.length * 30)}px`;
  const config = settings({ type: 'linear', stacked: true, min: 0, ...x }, { type: 'category', stacked: true, grid: { display: false },
    ticks: { autoSkip: false, color: (c) => part(c.index) ? look.soft : look.ink, font: (c) => ({ weight: part(c.index) ? 400 : 600 }), callback: (_, i) => short(names[i], narrow ? 16 : 34) } },
  { indexAxis: 'y', interaction: { mode: 'nearest', axis: 'xy', intersect: true }, tooltip: { callbacks: { title: (items) => items.length ? names[items[0].dataIndex] : '', label } } });
  draw(id, { type: 'bar', data: { labels: names, datasets }, options: config });
}

const bar = (colour, values, label, tone = colour) => ({ label, tone, data: values, backgroundColor: colour, borderColor: look.card, borderWidth: { right: 1 },
  maxBarThickness: 26, categoryPercentage: .86, barPercentage: .94 });

function drawThroughput() {
  const shown = runs.filter((r) => r.shown && r.samplesPerSecond);
  const set = bar(shown.map((r) => r.colour), shown.map((r) => r.samplesPerSecond), 'samples/s');
  barChart('throughput', shown.map((r) => r.name), [set], { ticks: { callback: (v) => grouped(v) } }, (item) => ` ${grouped(item.parsed.x)} samples/s`);
}

/* A bar for each run and, below it, a bar for each of its workers. */
function timeRows() {
  const rows = [];
  for (const run of runs.filter((r) => r.shown)) {
    const workers = run.workers > 1 ? run.workersSeen : [];
    if (run.share) rows.push({ name: run.name, share: run.share, seconds: run.stepSeconds });
    for (const w of workers) if (w.share) rows.push({ isPart: true, name: run.share ? `worker ${w.worker}` : `${run.name}, worker ${w.worker}`, share: w.share, seconds: run.stepSeconds });
  }
  return rows;
}

function drawTime() {
  const rows = timeRows(), inMs = document.querySelector('[name=unit]:checked').value === 'ms' && rows.every((r) => r.seconds);
  $('shares').hidden = runs.every((r) => !r.share && !r.workersSeen.some((w) => w.share));
  if ($('shares').hidden) return;
  const value = (r, p) => r.share[p] * (inMs ? 1000 * r.seconds : 1), write = (v) => inMs ? `${v.toPrecision(3)} ms` : percent(v, 1);
  const sets = PHASES.map((name, p) => bar(patterned(look.phases[p], p), rows.map((r) => value(r, p)), name, look.phases[p]));
  barChart('time', rows.map((r) => r.name), sets, { text: inMs ? 'ms per step' : '', max: inMs ? undefined : 1,
    ticks: { callback: (v) => inMs ? +v.toPrecision(4) : `${Math.round(100 * v)} %` } },
  (item) => ` ${item.dataset.label}: ${write(item.parsed.x)} (${percent(rows[item.dataIndex].share[item.datasetIndex], 1)})`,
  (i) => rows[i]?.isPart);
}

const KINDS_OF_MEMORY = ['weights', 'gradients', 'optimizer', 'activations', 'data', 'state', 'communication', 'workspace'];
const PATTERN_OF_MEMORY = [3, 4, 5, 6, 7, 0, 2, 7, 1]; // the last pattern is for the peak
const tonesOfMemory = () => [...look.memory, look.memory[5], look.memory[5], look.memory[5]];

function drawMemory() {
  const known = (r) => r.about.memory && typeof r.about.memory === 'object', shown = runs.filter((r) => r.shown && known(r));
  $('memory').hidden = !runs.some(known);
  if ($('memory').hidden) return;
  const of = (r, kind) => typeof r.about.memory[kind] === 'number' ? r.about.memory[kind] : 0;
  const tones = tonesOfMemory(), some = (kind, k) => k < 5 || shown.some((r) => of(r, kind) > 0);
  const sets = KINDS_OF_MEMORY.map((kind, k) => ({ ...bar(patterned(tones[k], PATTERN_OF_MEMORY[k]), shown.map((r) => of(r, kind)), kind, tones[k]), stack: 'kinds' })).filter((set, k) => some(set.label, k));
  sets.push({ ...bar(look.memory[5], shown.map((r) => of(r, 'peak_resident')), 'peak of the process'), stack: 'peak', maxBarThickness: 7 });
  barChart('bytes', shown.map((r) => r.name), sets, { ticks: { callback: (v) => shortBytes(v) } }, (item) => ` ${item.dataset.label}: ${shortBytes(item.parsed.x)}`);
}

function drawAll() {
  drawCurves();
  drawScaling();
  drawThroughput();
  drawTime();
  drawMemory();
  drawSweep();
}
