/* The sweep over global batches: steps and seconds to the target, both axes logarithmic, beside the ideal. */
'use strict';

/* 1, 2, 5, 10, ... of an axis, or 1, 10, ... where those are many; and "never" at its top. */
function sweepTicks(low, high, top) {
  const of = (digits) => {
    const list = [];
    for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) for (const d of digits) list.push(d * power);
    return list.filter((v) => v >= low && v <= high);
  };
  const fine = of([1, 2, 5]);
  return [...(fine.length > 9 ? of([1]) : fine), top].map((value) => ({ value }));
}

/* The colour that the run has in the curves. */
const colourOf = (r) => runs[data.sweep.runs.indexOf(r)]?.colour ?? look.ink;

/* `value`: what a run needed; a run that never got there is a cross at the top. */
function sweepChart(id, value, unit) {
  const all = data.sweep.runs, got = all.filter((r) => r.reached), most = Math.max(...got.map(value), 1), least = Math.min(...got.map(value), most);
  const end = all[all.length - 1].batch, first = all[0].batch, top = most * 2.2;
  const never = all.filter((r) => !r.reached).map((r) => ({ x: r.batch, y: top, run: r }));
  const sets = [
    { label: 'measured', type: 'line', data: got.map((r) => ({ x: r.batch, y: value(r), run: r })), borderColor: look.ink,
      pointBorderColor: got.map(colourOf), pointBackgroundColor: got.map(colourOf), borderWidth: 1.5, pointRadius: 5, pointHoverRadius: 7 },
    { label: 'never', data: never, borderColor: look.move, backgroundColor: look.move, borderWidth: 3, pointRadius: 7, pointHoverRadius: 9, pointStyle: 'crossRot' },
  ];
  if (got.length > 0) {
    const ideal = (x) => ({ x, y: value(got[0]) * got[0].batch / x });
    sets.push({ label: 'ideal', type: 'line', data: [ideal(first), ideal(end)], borderColor: look.soft, borderDash: [5, 4], borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0 });
  }
  const batches = new Set(all.map((r) => r.batch));
  const low = got.length > 0 ? Math.min(least, value(got[0]) * got[0].batch / end) : most / 10;
  draw(id, { type: 'scatter', data: { datasets: sets }, options: settings(
    { type: 'logarithmic', text: 'global batch', min: first / 1.2, max: end * 1.2,
      afterBuildTicks: (axis) => { axis.ticks = [...batches].map((v) => ({ value: v })); }, ticks: { autoSkip: true, callback: (x) => x } },
    { type: 'logarithmic', min: low / 1.2, max: top * 1.5, text: unit, ticks: { autoSkip: false, callback: (y) => y === top ? 'never' : +y.toPrecision(3) },
      afterBuildTicks: (axis) => { axis.ticks = sweepTicks(low / 1.2, most * 1.3, top); } },
    { interaction: { mode: 'nearest', intersect: true }, tooltip: { callbacks: {
      title: () => '', label: (item) => item.raw.run ? ` batch ${item.raw.run.batch}: ${sweepWords(item.raw.run, value, unit)}` : ' ideal' } } }) });
}

function sweepWords(r, value, unit) {
  if (r.reached) return `${+value(r).toPrecision(4)} ${unit}, then ${percent(r.test_accuracy, 2)} at the end`;
  return r.diverged ? 'diverged' : `not reached; ${percent(r.test_accuracy, 2)} at the end`;
}

/* The run that was at the target first by more than the time between two looks at the test set, which is as exactly as the
 * moment is known; null where two are nearer to each other. */
function firstToTarget(reached) {
  const ranked = [...reached].sort((a, b) => a.seconds - b.seconds), [first, second] = ranked;
  const look = (r) => r.seconds / r.epochs / LOOKS_AN_EPOCH;
  return ranked.length > 1 && second.seconds - first.seconds > Math.max(look(first), look(second)) ? first : null;
}

const LOOKS_AN_EPOCH = 4; // GS_SWEEP_TESTS of train/sweep.h

function sweepTable() {
  const s = data.sweep, best = firstToTarget(s.runs.filter((r) => r.reached));
  const head = ['batch', 'learning rate', 'steps', 'epochs', 'seconds', 'final accuracy', 'samples/s', ''];
  const cells = (r) => [`${r.batch}`, `${+r.lr.toPrecision(4)}`, r.reached ? grouped(r.steps) : r.diverged ? 'NaN' : 'never', r.reached ? r.epochs.toFixed(2) : '–',
    r.reached ? r.seconds.toFixed(2) : '–', percent(r.test_accuracy, 2), rate(r.samples_per_s), r.reached ? '' : r.diverged ? '✕ diverged' : '✕ not reached'];
  $('sweep-table').replaceChildren(
    element('thead', {}, element('tr', {}, ...head.map((h) => element('th', {}, h)))),
    element('tbody', {}, ...s.runs.map((r) => element('tr', {}, ...cells(r).map((c, i) =>
      element(i === 0 ? 'th' : 'td', { class: i === 4 && r === best ? 'best' : null }, c))))));
  overflowing($('sweep-table'));
}

function drawSweep() {
  if (!data.sweep || data.sweep.runs.length === 0) return;
  $('sweep').hidden = false;
  $('runs').hidden = true; // the sweep has a table of its own
  for (const e of document.querySelectorAll('.target')) e.textContent = `to ${+(100 * data.sweep.target).toPrecision(4)} % test accuracy`;
  sweepChart('sweep-steps', (r) => r.steps, 'steps');
  sweepChart('sweep-seconds', (r) => r.seconds, 'seconds');
  sweepTable();
}
