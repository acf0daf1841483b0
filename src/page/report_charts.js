/* The charts, by Chart.js: what is on which axis, and in which look. */
'use strict';

const charts = {};

function draw(id, config) {
  const canvas = $(id);
  if (charts[id]) charts[id].destroy();
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', canvas.closest('.card').querySelector('h3')?.textContent ?? 'bars');
  charts[id] = new Chart(canvas, config);
}

/* Charts end with their data; the number there is left out where it is none of the others' kind. */
function withoutEnd(x, i, ticks) {
  const odd = i === ticks.length - 1 && i > 1 && Math.abs(ticks[i].value - 2 * ticks[i - 1].value + ticks[i - 2].value) > 1e-9 * ticks[i].value;
  return odd ? null : x >= 1000 ? grouped(x) : +x.toPrecision(6);
}

/* What all charts have. */
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

/* The mean as a line, and between the extremes of each point a pale band. */
function lineOf(run, curve, x, column, what, more = {}) {
  const base = { hidden: !run.shown, run, borderColor: run.colour, backgroundColor: run.colour, borderDash: run.dash,
    borderWidth: 1.8, pointRadius: 0, pointHitRadius: 6, pointStyle: run.point, label: what };
  const line = { ...base, data: pairs(curve, x, column), ...more };
  if (!curve[`${column}_min`] || more.pointRadius) return [line];
  const edge = { ...base, borderWidth: 0, isBand: true };
  return [line, { ...edge, data: pairs(curve, x, `${column}_min`), fill: false },
    { ...edge, data: pairs(curve, x, `${column}_max`), fill: '-1', backgroundColor: pale(run.colour, .16) }];
}

function curveChart(id, x, y, datasets, digits) {
  const config = settings({ type: 'linear', text: UNITS[x], min: 0, bounds: 'data', ticks: { callback: withoutEnd } }, y, { tooltip: {
    filter: (item) => !item.dataset.isBand,
    callbacks: {
      title: (items) => items.length ? `${x === 'step' ? 'step' : 'at'} ${+items[0].parsed.x.toPrecision(5)}${x === 'step' ? '' : ' s'}` : '',
      label: (item) => ` ${item.dataset.run.name}, ${item.dataset.label}: ${digits(item.parsed.y)}`,
    } } });
  draw(id, { type: 'line', data: { datasets }, options: config });
}

/* A line for the batches of training, and points for the test set. */
function metricChart(id, x, of) {
  const test = { pointRadius: 3.5, borderWidth: 1.2 };
  const datasets = runs.flatMap((run) => [
    ...lineOf(run, run.steps, x, of.train, 'training batch'),
    ...lineOf(run, run.epochs, x, of.test, 'test set', test),
  ].filter((d) => d.data.length > 0));
  curveChart(id, x, of.axis(), datasets, of.digits);
}

const METRICS = {
  loss: { train: 'loss', test: 'test_loss', digits: (y) => y.toPrecision(4),
    axis: () => ({ type: $('log').checked ? 'logarithmic' : 'linear' }) },
  accuracy: { train: 'accuracy', test: 'test_accuracy', digits: (y) => percent(y, 2),
    axis: () => ({ type: 'linear', max: 1, ticks: { callback: (y) => `${Math.round(100 * y)} %` } }) },
};

function drawCurves() {
  for (const name of Object.keys(METRICS))
    for (const x of ['step', 'time']) metricChart(`${name}-${x}`, x, METRICS[name]);
  const speed = runs.flatMap((run) => {
    const fromSteps = run.steps.samples_per_s?.some((v) => v !== null);
    return fromSteps ? lineOf(run, run.steps, 'time', 'samples_per_s', 'samples/s', { borderWidth: 1.2 }) :
      lineOf(run, run.epochs, 'time', 'samples_per_s', 'samples/s', { pointRadius: 3.5 });
  }).filter((d) => d.data.length > 0);
  $('speed-time-card').hidden = speed.length === 0;
  if (speed.length > 0) curveChart('speed-time', 'time', { type: 'linear', min: 0, ticks: { callback: (y) => grouped(y) } }, speed, grouped);
}

/* ---- speed-up and efficiency: a point a run, and the ideal ---- */

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
  const worth = runs.filter((r) => r.speedUp !== null).length > 1;
  for (const card of document.querySelectorAll('.card.several')) card.hidden = !worth;
  if (!worth) return;
  scalingChart('speed-up', 'speedUp', (few, most) => [{ x: 0, y: 0 }, { x: most + .5, y: (most + .5) / few }], (y) => +y.toFixed(2), (y) => y.toFixed(2));
  scalingChart('efficiency', 'efficiency', (few, most) => [{ x: 0, y: 1 }, { x: most + .5, y: 1 }], (y) => `${Math.round(100 * y)} %`, (y) => percent(y, 1));
}

/* ---- bars ---- */

const short = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

/* Horizontal bars, one under the other; the canvas is as high as they need. */
function barChart(id, names, datasets, x, label, part = () => false) {
  const narrow = window.innerWidth < 640, least = $(id).closest('.pair') && !narrow ? 250 : 0;
  $(id).parentElement.style.height = `${Math.max(least, 44 + names.length * 30)}px`;
  const config = settings({ type: 'linear', stacked: true, min: 0, ...x }, { type: 'category', stacked: true, grid: { display: false },
    ticks: { autoSkip: false, color: (c) => part(c.index) ? look.soft : look.ink, font: (c) => ({ weight: part(c.index) ? 400 : 600 }), callback: (_, i) => short(names[i], narrow ? 16 : 34) } },
  { indexAxis: 'y', interaction: { mode: 'nearest', axis: 'xy', intersect: true }, tooltip: { callbacks: { title: (items) => items.length ? names[items[0].dataIndex] : '', label } } });
  draw(id, { type: 'bar', data: { labels: names, datasets }, options: config });
}

const bar = (colour, values, label) => ({ label, data: values, backgroundColor: colour, borderColor: look.card, borderWidth: { right: 1 },
  maxBarThickness: 26, categoryPercentage: .86, barPercentage: .94 });

function drawThroughput() {
  const shown = runs.filter((r) => r.shown && r.samplesPerSecond);
  const set = bar(shown.map((r) => r.colour), shown.map((r) => r.samplesPerSecond), 'samples/s');
  barChart('throughput', shown.map((r) => r.name), [set], { ticks: { callback: (v) => grouped(v) } }, (item) => ` ${grouped(item.parsed.x)} samples/s`);
}

/* A bar for each run, and below it one for each of its workers. */
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
  const sets = PHASES.map((name, p) => bar(look.phases[p], rows.map((r) => value(r, p)), name));
  barChart('time', rows.map((r) => r.name), sets, { text: inMs ? 'ms a step' : '', max: inMs ? undefined : 1,
    ticks: { callback: (v) => inMs ? +v.toPrecision(4) : `${Math.round(100 * v)} %` } },
  (item) => ` ${item.dataset.label}: ${write(item.parsed.x)} (${percent(rows[item.dataIndex].share[item.datasetIndex], 1)})`,
  (i) => rows[i]?.isPart);
}

const KINDS_OF_MEMORY = ['weights', 'gradients', 'optimizer', 'activations', 'data'];

function drawMemory() {
  const known = (r) => r.about.memory && typeof r.about.memory === 'object', shown = runs.filter((r) => r.shown && known(r));
  $('memory').hidden = !runs.some(known);
  if ($('memory').hidden) return;
  const of = (r, kind) => typeof r.about.memory[kind] === 'number' ? r.about.memory[kind] : 0;
  const sets = KINDS_OF_MEMORY.map((kind, k) => ({ ...bar(look.memory[k], shown.map((r) => of(r, kind)), kind), stack: 'kinds' }));
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
