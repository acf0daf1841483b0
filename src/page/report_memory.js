/* Memory by kind over one traced step, as stacked areas: one picture per worker. */
'use strict';

/* From the bottom: [tone of look.memory, pattern]. The last two share one allocation: the part in use, and the rest. */
const AREAS = { weights: [0, 3], gradients: [1, 4], optimizer: [2, 5], state: [5, 0], communication: [5, 2], workspace: [5, 7], data: [4, 7],
  activations: [3, 6], 'activations, free': null };
const MOST_PICTURES = 4;

/* Start and end of a worker's last complete step, in us: if a trace was truncated, samples are missing there. */
function lastStep(trace, worker) {
  const steps = trace.events.filter((e) => KINDS[e.kind] === 'step' && trace.rows[e.row][0] === worker);
  const end = trace.all > trace.events.length ? trace.events.at(-1)?.start : Infinity;
  const last = steps.findLast((e) => e.end <= end) ?? steps.at(-1);
  return last ? [last.start, last.end, last.step] : null;
}

function areasOf(trace, worker) {
  const bounds = lastStep(trace, worker);
  if (!bounds) return null;
  const [from, to, step] = bounds;
  const all = trace.memory.samples.filter(([w]) => w === worker), inside = all.filter(([, t]) => t >= from && t <= to);
  if (inside.length === 0) return null;
  const points = inside.at(-1)[1] < to ? [...inside, [worker, to, ...inside.at(-1).slice(2)]] : inside;
  const kinds = Object.keys(AREAS).filter((k) => trace.memory.kinds.includes(k));
  const at = (k) => 2 + trace.memory.kinds.indexOf(k), x = (p) => (p[1] - from) / 1000;
  const below = (p, k) => kinds.slice(0, kinds.indexOf(k)).reduce((sum, other) => sum + p[at(other)], 0);
  const line = (k) => points.map((p) => ({ x: x(p), y: below(p, k) + p[at(k)], bytes: p[at(k)] }));
  return { step, to: (to - from) / 1000, kinds, of: line };
}

/* Constant kinds are at the bottom, so that changes stand out. Each line is the sum of its kind and those below it, and
 * is filled down to the line below: Chart.js's own stacks cannot be stepped, and fill nothing below points that are
 * less than 1e-6 pixels apart. */
function drawAreas(run, worker) {
  const areas = areasOf(run.trace, worker);
  if (!areas) return null;
  const datasets = areas.kinds.map((kind, i) => {
    const look5 = AREAS[kind], colour = look5 ? patterned(look.memory[look5[0]], look5[1]) : pale(look.memory[3], .25);
    return { label: kind, data: areas.of(kind), backgroundColor: colour, borderColor: look.soft, borderWidth: .7, pointRadius: 0, pointHitRadius: 4,
      fill: i > 0 ? '-1' : 'origin', stepped: true, pointStyle: 'rect' };
  });
  const options = settings({ type: 'linear', text: 'ms of the step', min: 0, max: areas.to, ticks: { callback: withoutEnd } },
    { type: 'linear', min: 0, ticks: { callback: (v) => shortBytes(v) } },
    { interaction: { mode: 'index', intersect: false }, tooltip: { callbacks: {
      title: (items) => items.length ? `${items[0].parsed.x.toPrecision(4)} ms` : '',
      label: (item) => ` ${item.dataset.label}: ${shortBytes(item.raw.bytes)}` }, itemSort: (a, b) => b.datasetIndex - a.datasetIndex } });
  draw(`areas-${worker}`, { type: 'line', data: { datasets }, options });
  return areas;
}

function drawAreasOfRun(run) {
  const has = run?.trace?.memory, box = $('areas');
  $('memory-step').hidden = !has;
  if (!has) return;
  const workers = run.trace.workers.slice(0, MOST_PICTURES);
  if (box.children.length !== workers.length)
    box.replaceChildren(...workers.map((name, w) => element('div', { class: 'card' }, element('h3', {}, name), element('div', { class: 'chart' }, element('canvas', { id: `areas-${w}` })))));
  workers.forEach((name, w) => { box.children[w].querySelector('h3').textContent = name; });
  const shown = workers.map((_, w) => drawAreas(run, w)), first = shown.find((a) => a !== null);
  $('memory-step').hidden = !first;
  if (!first) return;
  const tone = (k) => AREAS[k] ? look.memory[AREAS[k][0]] : pale(look.memory[3], .25);
  legendOfAreas(first.kinds, tone);
  $('areas-say').textContent = `Step ${first.step} of ${run.name}${run.trace.workers.length > MOST_PICTURES ? `, the first ${MOST_PICTURES} of ${run.trace.workers.length} workers` : ''}.`;
}

function legendOfAreas(kinds, tone) {
  $('areas-kinds').replaceChildren(...kinds.map((kind) => {
    const canvas = element('canvas', { width: 20, height: 13 }), c = canvas.getContext('2d');
    c.fillStyle = AREAS[kind] ? patterned(look.memory[AREAS[kind][0]], AREAS[kind][1]) : tone(kind);
    c.fillRect(0, 0, 20, 13);
    return element('span', {}, canvas, kind);
  }));
}
