/* The page's text and tables, and its menus, chips and keys. */
'use strict';

const text = (x) => typeof x === 'string' ? x : x === null || x === undefined ? '' : typeof x === 'object' ? JSON.stringify(x) : String(x);

/* ---- head, notes ---- */

const listed = (words) => words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
const firstOf = (list) => [...new Set(list.filter((x) => x !== ''))];

function lead() {
  const models = firstOf(runs.map((r) => text(r.about.model))), sets = firstOf(runs.map((r) => text(r.about.data)));
  const what = data.sweep ? 'A sweep over the global batch' : runs.length === 1 ? runs[0].name : `${runs.length} runs side by side`;
  $('head').textContent = what;
  const parts = [];
  if (models.length > 0) parts.push('Training of ', element('b', {}, models.join(', ')), ...(sets.length > 0 ? [' on ', element('b', {}, sets.join(', '))] : []), '. ');
  parts.push(`${several(runs.length, 'run')}, with ${listed(firstOf(runs.map((r) => String(r.workers))))} worker${runs.every((r) => r.workers === 1) ? '' : 's'}.`);
  $('lead').replaceChildren(...parts);
}

function notes() {
  const lines = runs.flatMap((run) => run.notes.map((note) => element('p', {}, element('b', {}, run.name), `: ${note}`)));
  if (lines.length > 0) $('notes').replaceChildren(element('div', { class: 'wrong' }, ...lines));
}

/* ---- chips: which runs are shown ---- */

function swatch(run) {
  const box = svg('svg', { viewBox: '0 0 34 12', 'aria-hidden': 'true' });
  svg('path', { d: 'M1 6H33', stroke: run.colour, 'stroke-width': 3, 'stroke-dasharray': run.dash.join(' ') }, box);
  return box;
}

function chips() {
  $('chips').hidden = runs.length < 2;
  $('chips').replaceChildren(...runs.map((run) => {
    const b = element('button', { 'aria-pressed': String(run.shown), title: 'Show or hide this run' }, swatch(run), element('span', {}, run.name));
    b.addEventListener('click', () => { run.shown = !run.shown; b.setAttribute('aria-pressed', String(run.shown)); drawAll(); });
    return b;
  }));
}

/* ---- tables ---- */

/* The bytes that a worker sends on average, and the bytes of the busiest worker, which may be a server. */
function bytesSent({ sent_bytes_a_step: mean, sent_bytes_a_step_most: most }) {
  if (typeof mean !== 'number') return null;
  return typeof most === 'number' && most > 1.01 * mean ? `${grouped(mean)}; busiest ${grouped(most)}` : grouped(mean);
}

const COLUMNS = [
  ['run', (r) => r.name],
  ['workers', (r) => r.workers],
  ['global batch', (r) => r.batch === null ? '–' : grouped(r.batch)],
  ['samples/s', (r) => rate(r.samplesPerSecond), (r) => r.samplesPerSecond, speedSpread],
  ['speed-up', (r) => compared ? fixed(r.speedUp, 2) : null],
  ['efficiency', (r) => compared ? percent(r.efficiency) : null],
  ['time in sync', (r) => r.share ? percent(r.share[3], 1) : '–'],
  ['steps', (r) => r.count === null ? '–' : grouped(r.count)],
  ['seconds', (r) => fixed(r.seconds, 2)],
  ['training loss', (r) => fixed(r.loss, 4)],
  ['test accuracy', (r) => percent(r.accuracy, 2), (r) => r.accuracy, accuracySpread],
  ['bytes sent per step', (r) => bytesSent(r.about.ended ?? {})],
];

/* The run that is better than all others by more than both spreads; null if the difference may be due to chance, or if
 * a spread is unknown. */
function clearlyBest(value, spread) {
  const ranked = runs.filter((r) => typeof value(r) === 'number').sort((a, b) => value(b) - value(a));
  if (ranked.length < 2) return null;
  const [first, second] = ranked, both = [spread(first), spread(second)];
  return both.every((s) => s !== null) && value(first) - value(second) > Math.max(...both) ? first : null;
}

/* The interquartile range of samples/s: of medians over windows, or of the epochs' values. */
function speedSpread(run) {
  const points = pairs(run.steps, 'time', 'samples_per_s'), list = points.length >= 20 ? medians(points, Math.max(5, Math.ceil(points.length / 40))).map((p) => p.y) :
    (run.epochs.samples_per_s ?? []).filter((v) => v !== null);
  if (list.length < 3) return null;
  list.sort((a, b) => a - b);
  return list[Math.floor(.75 * (list.length - 1))] - list[Math.ceil(.25 * (list.length - 1))];
}

/* Twice the standard error of a share of n images (binomial): the uncertainty from the choice of the test set. */
function accuracySpread(run) {
  const n = run.about.test_samples;
  return typeof n === 'number' && n > 0 ? 2 * Math.sqrt(run.accuracy * (1 - run.accuracy) / n) : null;
}

/* Show a hint above a table that is wider than its card. */
function overflowing(table) {
  const card = table.closest('.card'), before = card.previousElementSibling?.classList.contains('hint') ? card.previousElementSibling : null;
  const wide = card.scrollWidth > card.clientWidth + 1;
  card.classList.toggle('goes-on', wide);
  if (!wide) before?.remove();
  else if (!before) card.before(element('p', { class: 'hint' }, 'The table continues to the right: scroll sideways. →'));
}

function table() {
  const columns = COLUMNS.filter(([, cell]) => runs.some((r) => cell(r) !== null));
  const best = columns.map(([, , value, spread]) => value ? clearlyBest(value, spread) : null);
  const mark = (run) => element('i', { class: 'mark', style: `background:${run.colour}` });
  $('table').replaceChildren(
    element('thead', {}, element('tr', {}, ...columns.map(([name]) => element('th', { scope: 'col' }, name)))),
    element('tbody', {}, ...runs.map((run) => element('tr', {}, ...columns.map(([, cell, value], i) => i === 0 ?
      element('th', { scope: 'row', title: run.name }, mark(run), run.name) :
      element('td', { class: run === best[i] ? 'best' : null }, text(cell(run))))))));
  overflowing($('table'));
  const bases = firstOf(runs.filter((r) => r.base && r.speedUp !== null).map((r) => r.base.name));
  $('base').textContent = [
    best.some((run) => run !== null) ? 'Bold: better than the next by more than the spread: for samples/s, from window to window; for an accuracy, twice its standard error with that many test images.' : '',
    compared ? `Speed-up: samples/s compared with the run with the fewest workers of the same model, data, kind of device and threads (${bases.join('; ')}). Efficiency: speed-up divided by the ratio of the numbers of workers.` : '',
  ].filter(Boolean).join(' ');
}

/* ---- how the page was made ---- */

const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
const commandOf = (words) => Array.isArray(words) ? words.map((w) => quoted(text(w))).join(' ') : text(words);

function facts(run) {
  const a = run.about, versions = a.versions && typeof a.versions === 'object' ? a.versions : {}, optimizer = a.optimizer && typeof a.optimizer === 'object' ? a.optimizer : {};
  const hosts = new Set(run.devices.map((d) => text(d.host)));
  return [
    ['started', text(a.started)], ['program', text(a.program)],
    ['model', text(a.model)], ['layers', text(a.model_text)],
    ['data', text(a.data)], ['global batch', run.batch === null ? '' : grouped(run.batch)],
    ['epochs', text(a.epochs)], ['seed', text(a.seed)],
    ['optimizer', Object.entries(optimizer).map(([k, v]) => `${k} ${text(v)}`).join(', ')],
    ['sum of gradients', /^none/.test(text(a.sums)) ? text(a.sums) : [a.sums || a.sync, a.transport && `over ${text(a.transport)}`, a.wire && `as ${text(a.wire)}`, a.bucket_kb ? `in buckets of ${text(a.bucket_kb)} kB` : ''].filter(Boolean).map(text).join(', ')],
    ['workers', `${run.workers}${typeof a.processes === 'number' ? `, in ${a.processes === 1 ? 'one process' : `${a.processes} processes`}` : ''}`],
    ...run.devices.map((d) => [`worker ${text(d.worker)}`, [d.device, d.name, hosts.size > 1 ? d.host : ''].map(text).filter(Boolean).join(': ')]),
    ['machine', a.host_cores ? `${text(a.host_cores)} core${a.host_cores === 1 ? '' : 's'}` : ''],
    ['versions', Object.entries(versions).map(([k, v]) => `${k} ${text(v)}`).join('; ')],
    ['ended', a.ended && typeof a.ended === 'object' ? `${text(a.ended.why)}${typeof a.ended.seconds === 'number' ? `, after ${shortTime(a.ended.seconds)}` : ''}` : ''],
  ].filter(([, value]) => value !== '');
}

function made() {
  $('command').hidden = !data.command;
  $('command').textContent = data.command ? commandOf(data.command) : '';
  $('runs-made').replaceChildren(...runs.map((run) => element('details', { class: 'run', open: runs.length <= 3 },
    element('summary', {}, run.name),
    run.about.command && !data.command ? element('pre', {}, commandOf(run.about.command) + (run.about.processes > 1 ? `  # in ${text(run.about.processes)} processes` : '')) : null,
    element('table', { class: 'facts' }, element('tbody', {}, ...facts(run).map(([name, value]) =>
      element('tr', {}, element('th', {}, name), element('td', {}, value))))))));
  $('version').textContent = `Made by gradsum ${text(data.version)}. This page needs no network.`;
}

/* ---- legends, and the text below the charts ---- */

const legend = (id, names, tones, patterns = PATTERNS.map((_, k) => k)) => $(id).replaceChildren(...names.map((name, i) =>
  element('span', {}, sample(tones[i], patterns[i]), name)));

function words() {
  const thin = runs.filter((r) => r.steps.each > 1 || r.epochs.each > 1), test = runs.some((r) => r.epochs.rows > 0);
  $('thinned').textContent = [test ? 'Bold points: the test set.' : '', runs.some((r) => r.steps.rows > 0) ? 'Thin lines: the training batches.' : '',
    data.sweep ? 'The darker a line, the larger its batch.'.replace('darker', dark(look.back) ? 'lighter' : 'darker') : '',
    ...thin.slice(0, 3).map((r) => `${r.name}: ${grouped(r.steps.each > 1 ? r.steps.rows : r.epochs.rows)} ${r.steps.each > 1 ? 'steps' : 'epochs'} are shown as means of ${r.steps.each > 1 ? r.steps.each : r.epochs.each} each; the pale band spans the smallest to the largest.`)].join(' ');
  $('speed-say').textContent = compared ?
    'Dashed: the ideal: twice the workers, twice the samples per second.' :
    data.sweep ? '' : 'Give several logs, with different numbers of workers, to see speed-up and efficiency here.';
  $('time-say').textContent = 'A step: get the data, forward, backward, sum the gradients (sync: the time that a worker spends and waits there), update. Each worker has its own row.' +
    (runs.some((r) => r.about.pipeline) ? ' In a pipeline, sync is also the wait for messages of another stage: the bubble.' : '') +
    (runs.some((r) => r.about.zero > 1) ? ' With ZeRO 2 and 3, forward and backward include waits for a window and for weights.' : '');
  legend('phases', PHASES, look.phases);
  legend('kinds', KINDS.slice(0, 6), look.phases);
  legend('memory-kinds', [...KINDS_OF_MEMORY, 'peak of the process'], tonesOfMemory(), PATTERN_OF_MEMORY);
}

/* ---- the menus of the timeline ---- */

let timeline = null;

function chooseSteps() {
  const value = $('line-step').value;
  if (value === 'all') timeline.all();
  else timeline.setView(...timeline.bounds.get(+value));
}

function chooseRun(run) {
  timeline.show(run);
  drawAreasOfRun(run);
  $('line-step').replaceChildren(new Option('all', 'all'), ...timeline.steps.map((s) => new Option(String(s), String(s))));
  const shown = run.trace.events.length;
  $('line-note').textContent = shown < run.trace.all ? `The first ${grouped(shown)} of ${grouped(run.trace.all)} bars are shown.` : '';
}

function startTimeline() {
  const traced = runs.filter((r) => r.trace.events.length > 0);
  $('timeline').hidden = traced.length === 0;
  if (traced.length === 0) return;
  timeline = new Timeline($('line'));
  $('line-run').replaceChildren(...traced.map((r) => new Option(r.name, String(r.i))));
  $('line-run').addEventListener('change', (e) => chooseRun(runs[+e.target.value]));
  $('line-step').addEventListener('change', chooseSteps);
  $('line-arrows').addEventListener('change', () => timeline.draw());
  $('line-in').addEventListener('click', () => timeline.zoom(.6));
  $('line-out').addEventListener('click', () => timeline.zoom(1 / .6));
  $('line-all').addEventListener('click', () => timeline.all());
  const most = (r) => r.trace.flows.length + r.trace.rows.length; // what there is to see
  const first = traced.reduce((a, b) => (most(b) > most(a) ? b : a));
  $('line-run').value = String(first.i);
  chooseRun(first);
}

/* ---- all together ---- */

function paint() {
  readLook();
  Chart.defaults.color = look.soft;
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  chips();
  table();
  words();
  drawAll();
  if (timeline) timeline.draw();
  if (timeline) drawAreasOfRun(runs[+$('line-run').value]);
}

lead();
notes();
made();
readLook();
startTimeline();
$('curves').hidden = runs.every((r) => r.steps.rows === 0 && r.epochs.rows === 0);
paint();

function saySmoothing() {
  const each = Math.max(...runs.map((r) => r.steps.each || 1));
  $('smooth-say').textContent = smoothing() === 1 ? 'as measured' : `means of ${grouped(smoothing() * each)} steps; pale: as measured`;
  $('smooth').setAttribute('aria-valuetext', $('smooth-say').textContent);
}
saySmoothing();

$('log').addEventListener('change', drawCurves);
$('smooth').addEventListener('input', () => { saySmoothing(); drawCurves(); });
$('smooth').closest('label').hidden = $('smooth-say').hidden = runs.every((r) => r.steps.rows === 0);
for (const e of document.querySelectorAll('[name=unit]')) e.addEventListener('change', drawTime);
window.addEventListener('resize', () => {
  if (timeline) timeline.draw();
  for (const t of document.querySelectorAll('table.numbers')) overflowing(t);
});

/* For printing, switch to light colours and open all details. */
let closed = [];
function toPaper(on) {
  document.documentElement.classList.toggle('paper', on);
  if (on) closed = [...document.querySelectorAll('details.run:not([open])')];
  for (const e of closed) e.open = on;
  paint();
}
window.addEventListener('beforeprint', () => toPaper(true));
window.addEventListener('afterprint', () => toPaper(false));
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint);
