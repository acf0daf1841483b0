/* A simulated cluster: figures, curves over the number of workers, a timeline of one step, and the cost of failures. */
'use strict';

/* `look` and `charts` as in report_runs.js and report_charts.js, for a page without runs. */
const look = {}, charts = [];
const COLOURS = { pause: '#c2409c', forward: '#8fb3dd', backward: '#0b5cad', sum: '#e07b00', message: '#b88a00', update: '#00806a' };

function readLook() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ink', 'soft', 'line', 'faint', 'move', 'card']) look[name] = style.getPropertyValue(`--${name}`).trim();
}

const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)} %`;
const span = (seconds) => {
  const units = [[31557600, 'years'], [86400, 'days'], [3600, 'h'], [60, 'min']];
  const unit = units.find(([size]) => seconds >= size);
  return unit ? `${+(seconds / unit[0]).toPrecision(4)} ${unit[1]}` : shortTime(seconds);
};

/* ---- the figures ---- */

function row(table, head, ...cells) {
  table.append(element('tr', {}, element('th', { scope: 'row' }, head), ...cells.map((c) => element('td', {}, c))));
}

function showFacts() {
  const d = data, hosts = d.hosts < d.workers ? `, ${d.workers / d.hosts} on each of ${several(d.hosts, 'host')}` : '';
  $('head').textContent = `${d.model} on ${several(d.workers, 'worker')}, in virtual time`;
  $('lead').textContent = `${grouped(d.parameters)} parameters, ${+d.samples.toPrecision(4)} samples a worker; ` +
    `sums by ${d.layout || d.sync}${hosts ? `; workers:${hosts.slice(1)}` : ''}. Links: ${d.link}${d.inside === 'none' ? '' : `; inside a host ${d.inside}`}.`;
  const table = $('facts');
  row(table, 'step', shortTime(d.step));
  row(table, 'compute', `${shortTime(d.compute)}, ${d.measured ? 'measured on one core' : 'by --flops'}`);
  row(table, 'speed-up', `${+d.speed_up.toPrecision(4)}: efficiency ${percent(d.efficiency)}`);
  row(table, 'communication', `${shortTime(d.communication)}, ${percent(d.hidden, 0)} of it hidden behind compute`);
  row(table, 'sent', `${shortBytes(d.sent_most)} by the worker that sends most; ${shortBytes(d.sent_between)} between hosts, ` +
    `${shortBytes(d.sent_inside)} inside`);
  if (d.formula !== null && d.workers > 1) row(table, 'sums by formula', `${shortTime(d.formula)} (alpha-beta model)`);
  $('bottleneck').textContent = `Bottleneck: ${d.bottleneck}.`;
  document.title = `gradsum: ${$('head').textContent}`;
}

/* ---- curves ---- */

function curve(id, sets, y) {
  const canvas = $(id), counts = data.curve.map((p) => p.workers);
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', canvas.closest('.card').querySelector('h3').textContent);
  const axis = (text, more) => ({ grid: { color: look.line, borderColor: look.faint }, title: { display: true, text, color: look.soft },
    ...more, ticks: { color: look.soft, maxRotation: 0, autoSkipPadding: 14, ...more.ticks } });
  const lines = sets.map(({ label, of, dashed, colour }) => ({ label, data: data.curve.map((p) => ({ x: p.workers, y: of(p) })).filter((p) => p.y !== null),
    borderColor: colour, backgroundColor: colour, borderWidth: 2, borderDash: dashed ? [5, 4] : [], pointRadius: dashed ? 0 : 4 }));
  charts.push(new Chart(canvas, { type: 'line', data: { datasets: lines }, options: { animation: false, responsive: true, maintainAspectRatio: false,
    interaction: { mode: 'nearest', axis: 'x', intersect: false },
    scales: { x: axis('workers', { type: 'logarithmic', min: 1, max: Math.max(2, counts.at(-1)),
      afterBuildTicks: (a) => { a.ticks = counts.map((value) => ({ value })); }, ticks: { autoSkip: true, callback: (v) => grouped(v) } }), y: axis(y.text, y) },
    plugins: { legend: { display: sets.length > 1, labels: { color: look.soft, boxWidth: 26, boxHeight: 1 } },
      tooltip: { callbacks: { title: (items) => several(items[0].parsed.x, 'worker'), label: (item) => ` ${item.dataset.label}: ${y.say(item.parsed.y)}` } } } } }));
}

function drawCurves() {
  if (!data.curve) return; // absent with tp or pp
  $('curves').hidden = false;
  const few = (v) => +v.toPrecision(3), ms = (v) => shortTime(v / 1e3), plain = (v) => `${+v.toPrecision(4)}`;
  const blue = COLOURS.backward, orange = COLOURS.sum, ideal = data.curve[0];
  curve('curve-step', [{ label: 'step', of: (p) => 1e3 * p.step, colour: blue }, { label: 'compute', of: (p) => 1e3 * p.compute, colour: look.soft, dashed: true }],
    { text: 'ms', min: 0, say: ms, ticks: { callback: few } });
  curve('curve-speed-up', [{ label: 'speed-up', of: (p) => p.speed_up, colour: blue }, { label: 'without communication', of: (p) => p.workers * ideal.efficiency, colour: look.soft, dashed: true }],
    { text: 'times one worker', type: 'logarithmic', say: plain,
      afterBuildTicks: (a) => { a.ticks = data.curve.map((p) => ({ value: p.workers })); }, ticks: { autoSkip: true, callback: (v) => grouped(v) } });
  curve('curve-efficiency', [{ label: 'efficiency', of: (p) => 100 * p.efficiency, colour: blue }],
    { text: '%', min: 0, max: 100, say: (v) => `${v.toFixed(1)} %`, ticks: {} });
  curve('curve-communication', [{ label: 'in virtual time', of: (p) => 1e3 * p.communication, colour: orange },
    { label: 'by formula', of: (p) => p.formula === null ? null : 1e3 * p.formula, colour: look.soft, dashed: true },
    { label: 'waited for', of: (p) => 1e3 * p.exposed, colour: blue }], { text: 'ms', min: 0, say: ms, ticks: { callback: few } });
}

/* ---- the timeline: for each worker, a row for compute and one for communication ---- */

function drawTimeline() {
  const spans = data.timeline, workers = [...new Set(spans.map((s) => s.worker))].sort((a, b) => a - b);
  const WIDTH = 1000, LEFT = 90, ROW = 17, GAP = 12, end = Math.max(...spans.map((s) => s.to), 1e-12);
  const height = workers.length * (2 * ROW + GAP) + 26, x = (t) => LEFT + (WIDTH - LEFT - 8) * t / end;
  const picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': 'timeline of one step' });
  for (const s of spans) {
    const talks = s.what === 'sum' || s.what === 'message';
    const y = workers.indexOf(s.worker) * (2 * ROW + GAP) + (talks ? ROW : 0);
    const r = svg('rect', { x: x(s.from), y, width: Math.max(0.6, x(s.to) - x(s.from)), height: ROW - 1, fill: COLOURS[s.what] }, picture);
    svg('title', {}, r).textContent = `worker ${s.worker}, ${s.what}: ${shortTime(s.to - s.from)}, from ${shortTime(s.from)} to ${shortTime(s.to)}`;
  }
  workers.forEach((w, i) => { svg('text', { x: 0, y: i * (2 * ROW + GAP) + ROW + 4 }, picture).textContent = `worker ${w}`; });
  for (let i = 0; i <= 4; i++) {
    const t = svg('text', { x: x(end * i / 4), y: height - 6, 'text-anchor': i === 4 ? 'end' : i === 0 ? 'start' : 'middle' }, picture);
    t.textContent = shortTime(end * i / 4);
  }
  $('timeline').replaceChildren(picture);
  const kinds = Object.keys(COLOURS).filter((k) => spans.some((s) => s.what === k));
  $('kinds').replaceChildren(...kinds.map((k) => element('span', {}, element('b', { style: `background: ${COLOURS[k]}` }), k)));
  $('timeline-say').textContent = `The upper row of a worker is what it computes, the lower one its sums and messages with their waits.` +
    (workers.length < data.workers ? ` ${workers.length} of ${grouped(data.workers)} workers are shown.` : '');
}

/* ---- failures ---- */

function showFailures() {
  const f = data.failures, table = $('failures-table');
  if (!f) return;
  $('failures').hidden = false;
  const head = ['', 'a checkpoint every', 'expected time', 'more than without'];
  table.append(element('thead', {}, element('tr', {}, ...head.map((h) => element('th', {}, h)))));
  const line = (name, every, time) => row(table, name, every === null ? '' : span(every), span(time), percent(time / f.work - 1, 2));
  line('without failures', null, f.work);
  if (f.checkpoint_every !== f.daly) line('as given', f.checkpoint_every, f.expected);
  line('Young (1974)', f.young, f.expected_young);
  line('Daly (2006)', f.daly, f.expected_daly);
  if (f.drawn !== null) line(`mean of ${grouped(f.runs)} drawn runs`, f.checkpoint_every, f.drawn);
  $('failures-say').textContent = `One failure in ${span(f.mtbf)} of the cluster, in ${span(f.mtbf_host)} of a host. A checkpoint takes ` +
    `${span(f.checkpoint_cost)}, a restart ${span(f.restart_cost)}. Expected times by Daly's formula.`;
}

readLook();
showFacts();
drawCurves();
drawTimeline();
showFailures();
