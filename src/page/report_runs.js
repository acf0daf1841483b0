/* Prepares the page's runs: their names, their look, and their relative speeds. src/page/report.h describes the data.
 */
'use strict';

const PHASES = ['data', 'forward', 'backward', 'sync', 'update'];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [14, 4], [5, 2], [2, 6], [12, 3, 2, 3, 2, 3]];
const POINTS = ['circle', 'rect', 'triangle', 'rectRot', 'star', 'crossRot', 'rectRounded', 'cross'];

const last = (list) => { // the last number that is present
  for (let i = (list || []).length - 1; i >= 0; i--) if (list[i] !== null) return list[i];
  return null;
};

function prepare(raw, i) {
  const about = raw.about || {}, devices = Array.isArray(about.devices) ? about.devices.filter((d) => d && typeof d === 'object') : [];
  const run = { ...raw, i, about, devices, shown: true, workersSeen: raw.workers, point: POINTS[i % POINTS.length],
    dash: DASHES[i % DASHES.length] };
  run.workers = typeof about.workers === 'number' ? about.workers : devices.length || 1;
  run.batch = typeof about.global_batch === 'number' ? about.global_batch : null;
  run.samplesPerSecond = raw.samples_per_s;
  run.stepSeconds = run.batch && run.samplesPerSecond ? run.batch / run.samplesPerSecond : null;
  run.loss = last(raw.epochs.train_loss) ?? last(raw.steps.loss);
  run.accuracy = (about.ended && typeof about.ended.test_accuracy === 'number' ? about.ended.test_accuracy : null) ??
    last(raw.epochs.test_accuracy);
  run.count = last(raw.steps.step) ?? last(raw.epochs.step); // steps completed
  if (about.ended && typeof about.ended.steps === 'number') run.count = about.ended.steps;
  run.seconds = Math.max(last(raw.epochs.time) ?? 0, last(raw.steps.time) ?? 0) || null;
  return run;
}
const runs = data.runs.map(prepare);

/* Runs are comparable if they train the same model on the same data, on the same kind of device with equally many
 * threads: an OpenCL device uses all cores, so compared with one thread it would seem more than 100 % efficient. The
 * run with the fewest workers is the baseline for the others. The runs of a sweep differ only in batch size. */
const kindOf = (run) => JSON.stringify([run.about.model_text ?? run.about.model ?? null, run.about.data ?? null,
  ...new Set(run.devices.map((d) => `${String(d.device).slice(0, 3)} ${d.name}`).sort())]); // a name includes the number of threads
for (const run of runs) {
  const alike = runs.filter((r) => kindOf(r) === kindOf(run) && r.samplesPerSecond);
  run.base = alike.reduce((a, b) => (b.workers < a.workers ? b : a), alike[0]);
  const good = run.base && run.base.samplesPerSecond && run.samplesPerSecond && !data.sweep;
  run.speedUp = good ? run.samplesPerSecond / run.base.samplesPerSecond : null;
  run.efficiency = good ? run.speedUp * run.base.workers / run.workers : null;
}
const compared = runs.filter((r) => r.speedUp !== null).length > 1; // for a single run it would be 1.00

/* ---- colours, from the style sheet, for light or dark mode ---- */

const look = { runs: [], ramp: [], phases: [], memory: [] };

/* A colour of the ramp; `part` goes from 0 (the first colour) to 1 (the last). */
function rampAt(part) {
  const at = part * (look.ramp.length - 1), i = Math.min(look.ramp.length - 2, Math.floor(at));
  const [a, b] = [channels(look.ramp[i]), channels(look.ramp[i + 1])];
  return `#${a.map((v, k) => Math.round(v + (at - i) * (b[k] - v)).toString(16).padStart(2, '0')).join('')}`;
}

function readLook() {
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
  for (const list of ['runs', 'ramp', 'phases', 'memory']) look[list] = of(`--${list}`).split(/\s+/);
  for (const name of ['ink', 'soft', 'line', 'faint', 'card', 'back', 'move', 'focus']) look[name] = of(`--${name}`);
  for (const run of runs) run.colour = data.sweep ? rampAt(runs.length > 1 ? run.i / (runs.length - 1) : .5) : look.runs[run.i % look.runs.length];
}

/* The colour with the opacity `part`, 0 to 1. */
const pale = (hex, part) => `${hex}${Math.round(255 * part).toString(16).padStart(2, '0')}`;

/* ---- patterns, which distinguish phases and kinds of memory without colour ---- */

const dark = (hex) => { const [r, g, b] = channels(hex); return .2126 * r + .7152 * g + .0722 * b < 128; };
const PATTERNS = [
  (c) => { for (const [x, y] of [[2, 2], [6, 6]]) { c.beginPath(); c.arc(x, y, 1, 0, 7); c.fill(); } },
  null,
  (c) => { for (const x of [-8, 0, 8]) { c.moveTo(x, 8); c.lineTo(x + 8, 0); } c.stroke(); },
  null,
  (c) => { c.moveTo(0, 4); c.lineTo(8, 4); c.stroke(); },
  (c) => { c.moveTo(4, 0); c.lineTo(4, 8); c.stroke(); },
  null,
  (c) => { for (const x of [-8, 0, 8]) { c.moveTo(x, 0); c.lineTo(x + 8, 8); } c.stroke(); },
];

/* Tone number k with its pattern, as a tile of 8 x 8 pixels. */
function tile(hex, k) {
  const canvas = element('canvas', { width: 8, height: 8 }), c = canvas.getContext('2d');
  c.fillStyle = hex;
  c.fillRect(0, 0, 8, 8);
  c.strokeStyle = c.fillStyle = dark(hex) ? '#ffffffb0' : '#000000a0';
  c.beginPath();
  PATTERNS[k % PATTERNS.length]?.(c);
  return canvas;
}

/* A sample of the pattern for a legend. */
function sample(hex, k) {
  const canvas = element('canvas', { width: 20, height: 13, 'aria-hidden': 'true' }), c = canvas.getContext('2d');
  c.fillStyle = patterned(hex, k);
  c.fillRect(0, 0, 20, 13);
  return canvas;
}

const patterned = (hex, k) => tile(hex, k).getContext('2d').createPattern(tile(hex, k), 'repeat');

/* ---- short numbers ---- */

const fixed = (x, digits) => x === null || x === undefined ? '–' : x.toFixed(digits);
const percent = (x, digits = 0) => x === null || x === undefined ? '–' : `${(100 * x).toFixed(digits)} %`;
const rate = (x) => x === null || x === undefined ? '–' : grouped(x);
