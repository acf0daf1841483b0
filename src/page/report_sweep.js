/* The sweep over global batch sizes: steps and seconds to the target on logarithmic axes, next to the ideal. A row is a
 * batch's line in `sweep --json`. Its figures are the median, minimum and maximum over the seeds; the median is null if
 * at least half of the seeds never reached the target. */
'use strict';

/* The ticks 1, 2, 5, 10, ... of an axis, or 1, 10, ... if those are too many, and "never" at the top. */
function sweepTicks(low, high, top) {
  const of = (digits) => {
    const list = [];
    for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) for (const d of digits) list.push(d * power);
    return list.filter((v) => v >= low && v <= high);
  };
  const fine = of([1, 2, 5]);
  return [...(fine.length > 9 ? of([1]) : fine), top].map((value) => ({ value }));
}

/* The run's colour in the curves. */
const colourOf = (r) => runs[data.sweep.runs.indexOf(r)]?.colour ?? look.ink;

const MEDIAN = 'median', LEAST = 'least', MOST = 'most';

/* name: 'steps' or 'seconds'. A row that never reached the target is shown as a cross at the top. */
function sweepChart(id, name) {
  const value = (r) => r[name][MEDIAN], seeds = data.sweep.seeds;
  const all = data.sweep.runs, got = all.filter((r) => r.reached), some = all.filter((r) => r[name][LEAST] !== null && seeds > 1);
  const most = Math.max(...got.map(value), ...some.map((r) => r[name][MOST]), 1), least = Math.min(...got.map(value), ...some.map((r) => r[name][LEAST]), most);
  const end = all[all.length - 1].batch, first = all[0].batch, top = most * 2.2;
  const never = all.filter((r) => !r.reached).map((r) => ({ x: r.batch, y: top, run: r }));
  const sets = [
    { label: seeds > 1 ? `median of ${seeds} seeds` : 'measured', type: 'line', data: got.map((r) => ({ x: r.batch, y: value(r), run: r })), borderColor: look.ink,
      pointBorderColor: got.map(colourOf), pointBackgroundColor: got.map(colourOf), borderWidth: 1.5, pointRadius: 5, pointHoverRadius: 7 },
    { label: 'never', data: never, borderColor: look.move, backgroundColor: look.move, borderWidth: 3, pointRadius: 7, pointHoverRadius: 9, pointStyle: 'crossRot' },
  ];
  if (got.length > 0) {
    const ideal = (x) => ({ x, y: value(got[0]) * got[0].batch / x });
    sets.push({ label: 'ideal', type: 'line', data: [ideal(first), ideal(end)], borderColor: look.soft, borderDash: [5, 4], borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0 });
  }
  if (some.length > 0) { // a bar from each row's minimum to its maximum: a line with gaps
    const bar = (r) => [LEAST, MOST].map((k) => ({ x: r.batch, y: r[name][k], run: r }));
    sets.push({ label: 'least to most', type: 'line', data: some.flatMap((r) => [...bar(r), { x: r.batch, y: NaN }]), borderColor: look.soft, borderWidth: 3,
      pointStyle: 'line', pointBorderColor: look.soft, pointRadius: 6, pointHoverRadius: 8, spanGaps: false });
  }
  const batches = new Set(all.map((r) => r.batch));
  const low = got.length > 0 ? Math.min(least, value(got[0]) * got[0].batch / end) : some.length > 0 ? least : most / 10;
  draw(id, { type: 'scatter', data: { datasets: sets }, options: settings(
    { type: 'logarithmic', text: 'global batch', min: first / 1.2, max: end * 1.2,
      afterBuildTicks: (axis) => { axis.ticks = [...batches].map((v) => ({ value: v })); }, ticks: { autoSkip: true, callback: (x) => x } },
    { type: 'logarithmic', min: low / 1.2, max: top * 1.5, text: name, ticks: { autoSkip: false, callback: (y) => y === top ? 'never' : +y.toPrecision(3) },
      afterBuildTicks: (axis) => { axis.ticks = sweepTicks(low / 1.2, most * 1.3, top); } },
    { interaction: { mode: 'nearest', intersect: true }, tooltip: { callbacks: {
      title: () => '', label: (item) => item.raw.run ? ` batch ${item.raw.run.batch}: ${sweepWords(item.raw.run, name)}` : ' ideal' } } }) });
}

const fourDigits = (x) => grouped(+x.toPrecision(4));
const range = (figure, text) => figure[LEAST] === null ? '–' : `${text(figure[LEAST])}–${text(figure[MOST])}`;

function sweepWords(r, name) {
  const end = percent(r.test_accuracy[MEDIAN], 2);
  if (data.sweep.seeds > 1)
    return `${r.seeds_reached} of ${r.seeds} seeds reached it` + (r.seeds_reached > 0 ? `, in ${range(r[name], fourDigits)} ${name}` : '') + `; median ${end} at the end`;
  if (r.reached) return `${+r[name][MEDIAN].toPrecision(4)} ${name}, then ${end} at the end`;
  return r.seeds_diverged > 0 ? 'diverged' : `not reached; ${end} at the end`;
}

/* The run that reached the target first, by more than the time between two tests, which is the precision; null if
 * no run is that far ahead. */
function firstToTarget(reached) {
  const seconds = (r) => r.seconds[MEDIAN];
  const ranked = [...reached].sort((a, b) => seconds(a) - seconds(b)), [first, second] = ranked;
  const look = (r) => seconds(r) / r.epochs[MEDIAN] / LOOKS_AN_EPOCH;
  return ranked.length > 1 && seconds(second) - seconds(first) > Math.max(look(first), look(second)) ? first : null;
}

const LOOKS_AN_EPOCH = 4; // as GS_SWEEP_TESTS in train/sweep.h

/* The table's columns: each has a heading, and a function for a row's cell. */
function sweepColumns() {
  const many = data.sweep.seeds > 1, missed = (r) => r.seeds_diverged > 0 ? 'NaN' : 'never', two = (x) => x.toFixed(2);
  const middle = (name, text) => (r) => r.reached ? text(r[name][MEDIAN]) : '–';
  const what = (r) => r.seeds_diverged > 0 ? `✕ ${many ? `${r.seeds_diverged} ` : ''}diverged` : r.reached ? '' : '✕ not reached';
  return [
    ['batch', (r) => `${r.batch}`], ['learning rate', (r) => `${+r.lr.toPrecision(4)}`],
    ...many ? [['reached', (r) => `${r.seeds_reached} of ${r.seeds}`]] : [],
    [many ? 'steps, median' : 'steps', (r) => r.reached ? grouped(r.steps[MEDIAN]) : many ? 'never' : missed(r)],
    ...many ? [['least–most', (r) => range(r.steps, grouped)]] : [],
    ['epochs', middle('epochs', two)], ['seconds', middle('seconds', two)],
    ...many ? [['least–most', (r) => range(r.seconds, two)]] : [],
    ['final accuracy', (r) => percent(r.test_accuracy[MEDIAN], 2)], ['samples/s', (r) => rate(r.samples_per_s)], ['', what]];
}

function sweepTable() {
  const s = data.sweep, best = firstToTarget(s.runs.filter((r) => r.reached)), columns = sweepColumns();
  $('sweep-table').replaceChildren(
    element('thead', {}, element('tr', {}, ...columns.map(([head]) => element('th', {}, head)))),
    element('tbody', {}, ...s.runs.map((r) => element('tr', {}, ...columns.map(([head, cell], i) =>
      element(i === 0 ? 'th' : 'td', { class: head === 'seconds' && r === best ? 'best' : null }, cell(r)))))));
  overflowing($('sweep-table'));
}

function drawSweep() {
  if (!data.sweep || data.sweep.runs.length === 0) return;
  for (const r of data.sweep.runs.filter((r) => !r.steps))
    Object.assign(r, { seeds: r.runs, seeds_reached: r.reached, seeds_diverged: r.diverged, reached: r.steps_to_target[MEDIAN] !== null,
      steps: r.steps_to_target, epochs: r.epochs_to_target, seconds: r.seconds_to_target, samples_per_s: r.samples_per_s[MEDIAN] });
  $('sweep').hidden = false;
  $('sweep-seeds').hidden = data.sweep.seeds === 1;
  $('runs').hidden = true; // the sweep has its own table
  for (const e of document.querySelectorAll('.target')) e.textContent = `to ${+(100 * data.sweep.target).toPrecision(4)} % test accuracy`;
  sweepChart('sweep-steps', 'steps');
  sweepChart('sweep-seconds', 'seconds');
  sweepTable();
}
