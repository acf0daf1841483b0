/* The runs of the page, made ready: what they are called, how they look, and how fast they are beside each other.
 *
 * The form of the data is told in src/page/report.h.
 */
'use strict';

const PHASES = ['data', 'forward', 'backward', 'sync', 'update'];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const POINTS = ['circle', 'rect', 'triangle', 'rectRot', 'star', 'crossRot', 'rectRounded', 'cross'];

const last = (list) => { // the last number that is there
  for (let i = (list || []).length - 1; i >= 0; i--) if (list[i] !== null) return list[i];
  return null;
};

function prepare(raw, i) {
  const about = raw.about || {}, devices = Array.isArray(about.devices) ? about.devices.filter((d) => d && typeof d === 'object') : [];
  const run = { ...raw, i, about, devices, shown: true, workersSeen: raw.workers, point: POINTS[i % POINTS.length],
    dash: DASHES[Math.floor(i / 8) % DASHES.length] };
  run.workers = typeof about.workers === 'number' ? about.workers : devices.length || 1;
  run.batch = typeof about.global_batch === 'number' ? about.global_batch : null;
  run.samplesPerSecond = raw.samples_per_s;
  run.stepSeconds = run.batch && run.samplesPerSecond ? run.batch / run.samplesPerSecond : null;
  run.loss = last(raw.epochs.train_loss) ?? last(raw.steps.loss);
  run.accuracy = (about.ended && typeof about.ended.test_accuracy === 'number' ? about.ended.test_accuracy : null) ??
    last(raw.epochs.test_accuracy);
  run.count = last(raw.steps.step) ?? last(raw.epochs.step); // steps that were done
  if (about.ended && typeof about.ended.steps === 'number') run.count = about.ended.steps;
  run.seconds = Math.max(last(raw.epochs.time) ?? 0, last(raw.steps.time) ?? 0) || null;
  return run;
}
const runs = data.runs.map(prepare);

/* Runs can be compared where they train the same model on the same data. The one with the fewest workers is the
 * measure of the others; in a comparison it is the first. The runs of a sweep differ by their batch alone. */
const kindOf = (run) => JSON.stringify([run.about.model_text ?? run.about.model ?? null, run.about.data ?? null]);
for (const run of runs) {
  const alike = runs.filter((r) => kindOf(r) === kindOf(run) && r.samplesPerSecond);
  run.base = data.compare ? runs[0] : alike.reduce((a, b) => (b.workers < a.workers ? b : a), alike[0]);
  const good = run.base && run.base.samplesPerSecond && run.samplesPerSecond && !data.sweep;
  run.speedUp = good ? run.samplesPerSecond / run.base.samplesPerSecond : null;
  run.efficiency = good ? run.speedUp * run.base.workers / run.workers : null;
}

/* ---- colours, as the style sheet has them for light or dark ---- */

const look = { runs: [], phases: [], memory: [] };

function readLook() {
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
  for (const list of ['runs', 'phases', 'memory']) look[list] = of(`--${list}`).split(/\s+/);
  for (const name of ['ink', 'soft', 'line', 'faint', 'card', 'back', 'move', 'focus']) look[name] = of(`--${name}`);
  for (const run of runs) run.colour = look.runs[run.i % look.runs.length];
}

/* The colour with so much of it left, 0 to 1. */
const pale = (hex, part) => `${hex}${Math.round(255 * part).toString(16).padStart(2, '0')}`;

/* ---- short numbers ---- */

const fixed = (x, digits) => x === null || x === undefined ? '–' : x.toFixed(digits);
const percent = (x, digits = 0) => x === null || x === undefined ? '–' : `${(100 * x).toFixed(digits)} %`;
const rate = (x) => x === null || x === undefined ? '–' : grouped(x);
