/* A traced step whose workers share the model: a pipeline, ZeRO, tensor parallelism (src/cli/step/layout.c). */
'use strict';

/* as gs_span_kind, gs_phase and the rows in src/train/timeline.h */
const KIND = { step: 0, phase: 1, forward: 2, backward: 3, send: 4, receive: 5, bucket: 6, loader: 7, stageForward: 8, stageBackward: 9, gather: 10,
  reduce: 11, weights: 12, gradients: 13, groupSum: 14, fetch: 15, offload: 16 };
const PHASES = ['load', 'forward', 'backward', 'sum', 'update'];
const spans = data.spans.map(([worker, row, kind, index, round, start, end, bytes, count]) => ({ worker, row, kind, index, round, start, end, bytes, count }));
const of = (worker, ...kinds) => spans.filter((s) => s.worker === worker && kinds.includes(s.kind));
const ms = (us) => `${+(us / 1000).toPrecision(4)} ms`;
const LEFT = 146, WIDE = 1200, TOP = 26;

/* ---- drawing ---- */

/* A picture of the time from..to, with `height` pixels below the axis. */
function picture(id, from, to, height, name) {
  const box = svg('svg', { class: 'steps', viewBox: `0 0 ${WIDE} ${TOP + height}`, role: 'img', 'aria-label': name });
  const x = (t) => LEFT + (clamp(t, from, to) - from) / (to - from || 1) * (WIDE - LEFT - 4);
  const about = (to - from) / 10, power = 10 ** Math.floor(Math.log10(about || 1)), every = [1, 2, 5, 10].find((m) => m * power >= about) * power;
  for (let t = Math.ceil(from / every) * every; t <= to; t += every) {
    svg('line', { class: 'grid', x1: x(t), x2: x(t), y1: 18, y2: TOP + height }, box);
    if (x(t) < WIDE - 40) svg('text', { class: 'tick', x: x(t), y: 12, 'text-anchor': 'middle' }, box).textContent = `${+(t / 1000).toPrecision(6)} ms`;
  }
  $(id).replaceChildren(box);
  return { box, x, from, to };
}

function lane(p, y, height, name, sub) {
  svg('rect', { class: 'lane', x: LEFT, y, width: WIDE - LEFT - 4, height, rx: 3 }, p.box);
  const text = svg('text', { class: name ? 'name' : 'sub', x: 0, y: y + height / 2 + (name && sub ? -2 : 4) }, p.box);
  text.textContent = name || sub;
  if (name && sub) svg('text', { class: 'sub', x: 0, y: y + height / 2 + 12 }, p.box).textContent = sub;
}

function bar(p, s, y, height, colour, label, lines, deep = false) {
  if (s.end < p.from || s.start > p.to) return;
  const left = p.x(s.start), width = Math.max(1.5, p.x(s.end) - left);
  const r = svg('rect', { class: 'bar', x: left, y, width, height, style: `fill: var(--${colour})`, tabindex: 0, role: 'img', 'aria-label': lines.join(', ') }, p.box);
  const tell = (e) => {
    const at = r.getBoundingClientRect();
    showTip([element('b', {}, lines[0]), ...lines.slice(1).map((l) => element('div', {}, l)), element('div', {}, `${ms(s.end - s.start)}, from ${ms(s.start)}`)],
      e.clientX ?? at.left, e.clientY ?? at.bottom);
  };
  r.addEventListener('pointermove', tell);
  r.addEventListener('focus', tell);
  for (const name of ['pointerleave', 'blur']) r.addEventListener(name, () => { $('tip').hidden = true; });
  if (label && width > 7.6 * label.length + 4)
    svg('text', { class: `in${deep ? ' deep' : ''}`, x: left + width / 2, y: y + height / 2 + 4, 'text-anchor': 'middle' }, p.box).textContent = label;
}

function legend(...entries) {
  $('legend').replaceChildren(...entries.map(([colour, text]) => element('span', {}, element('i', { style: `background: var(--${colour})` }), text)));
}

const took = Math.max(...spans.map((s) => s.end));

/* ---- pipeline ---- */

const EARLY = 'makes a backward as soon as it can, so that few micro-batches are alive', SCHEDULES = {
  gpipe: 'makes all forwards first, and then the backwards, so all micro-batches are alive at once', '1f1b': EARLY,
  interleaved: `has several runs of layers, and ${EARLY}`, eager: `goes ahead by twice as many forwards, and then ${EARLY}` };

function pipeline() {
  const LANE = 44, p = picture('picture', 0, took, data.workers.length * LANE, 'Which stage computes which micro-batch when');
  legend(['forward', 'forward of a micro-batch, with its number'], ['backward', 'its backward'], ['back', 'waits: the bubble'], ...(data.dp > 1 ? [['sum', 'sum over replicas']] : []), ['whole', 'update']);
  data.workers.forEach((w, r) => {
    const y = TOP + r * LANE, computed = Math.max(0, ...of(r, KIND.stageBackward).map((s) => s.end));
    lane(p, y + 2, LANE - 8, `worker ${r}, stage ${w.stage}`, `layers ${w.layers}${data.dp > 1 ? `, replica ${w.replica}` : ''}${data.tp > 1 ? `, part ${w.part}` : ''}`);
    for (const s of of(r, KIND.phase)) {
      if (s.index === 4) bar(p, s, y + 2, LANE - 8, 'whole', '', [`worker ${r}: update`]);
      if (s.index === 3 && s.start >= computed && data.dp > 1) bar(p, s, y + 2, LANE - 8, 'sum', '', [`worker ${r}: sum over the replicas`]);
    }
    for (const s of of(r, KIND.stageForward, KIND.stageBackward)) {
      const forward = s.kind === KIND.stageForward;
      bar(p, s, y + 2, LANE - 8, forward ? 'forward' : 'backward', String(s.index),
        [`${forward ? 'forward' : 'backward'} of micro-batch ${s.index}`, `worker ${r}, stage ${w.stage}${s.round > 0 ? `, run ${s.round}` : ''}`]);
    }
  });
  arrows(p, (r) => TOP + r * LANE + LANE / 2 - 2);
  return ['A row is a worker with its stage of the model. A micro-batch goes forward through the stages from the first to the last, and backward the other way; ' + `each stage ${SCHEDULES[data.schedule.split(':')[0]]} (${data.schedule_title}).`,
    'Lines are messages: activations to the next stage, gradients back to the one before. Where a row is empty, the worker waits. The wait at the beginning and at the end is the bubble; more micro-batches make it a smaller share.'];
}

/* The n-th message that a sends to b is the n-th that b receives from a. */
function arrows(p, middle) {
  const waiting = new Map();
  for (const s of spans.filter((m) => m.kind === KIND.send)) {
    const pair = `${s.worker}>${s.index}`;
    waiting.set(pair, [...(waiting.get(pair) || []), s]);
  }
  for (const s of spans.filter((m) => m.kind === KIND.receive)) {
    const sent = (waiting.get(`${s.index}>${s.worker}`) || []).shift();
    if (!sent) continue;
    const [x0, x1, y0, y1] = [p.x(sent.start), p.x(s.end), middle(sent.worker), middle(s.worker)];
    const down = y1 > y0 ? 1 : -1;
    svg('path', { class: 'arrow', d: `M${x0} ${y0 + 18 * down}L${x1} ${y1 - 18 * down}m-3 ${-5 * down}l3 ${5 * down}l3 ${-5 * down}` }, p.box);
  }
}

/* ---- ZeRO ---- */

function zero() {
  const LANE = 17, HEAD = 30, units = data.units.length, each = HEAD + units * LANE + 12;
  const p = picture('picture', 0, took, data.workers.length * each, 'Which worker holds which weights when');
  const n = data.workers.length;
  legend(['forward', 'forward'], ['backward', 'backward'], ...(data.zero > 2 ? [['own', `own part of the weights, 1/${n}`], ['gather', 'all-gather: the other parts come'], ['whole', 'all weights of the unit are here']] : [['gather', 'all-gather of updated weights']]),
    ...(data.zero > 1 ? [['gradients', 'all its gradients are here']] : []), ['sum', 'reduce-scatter: gradients are summed, and go'], ['inner', 'update']);
  data.workers.forEach((w, r) => {
    const y = TOP + r * each;
    lane(p, y, HEAD - 8, `worker ${r}`, '');
    const updated = Math.max(0, ...of(r, KIND.phase).filter((s) => s.index === 4).map((s) => s.end));
    for (const s of of(r, KIND.phase)) {
      const gathers = s.index === 3 && data.zero < 3 && updated > 0 && s.start >= updated, name = gathers ? 'all-gather' : PHASES[s.index];
      bar(p, s, y, HEAD - 8, gathers ? 'gather' : ['same', 'forward', 'backward', 'sum', 'inner'][s.index], name, [`worker ${r}: ${name}`], s.index === 3);
    }
    data.units.forEach((unit, u) => {
      const at = y + HEAD + u * LANE, named = unit ? `layer${unit.layers.includes('-') ? 's' : ''} ${unit.layers}` : `unit ${u}`;
      lane(p, at, LANE - 3, '', named);
      if (data.zero > 2) bar(p, { start: 0, end: took }, at + LANE - 6, 3, 'own', '', [`worker ${r}, ${named}: its own part`, `${shortBytes(4 * unit.count / n || 4 * unit.floats / n)}, all the time`]);
      const show = (kind, colour, words, height = LANE - 3) => {
        for (const s of of(r, kind).filter((e) => e.index === u)) bar(p, s, at, height, colour, '', [`worker ${r}, ${named}: ${words}`, shortBytes(s.bytes)]);
      };
      show(KIND.gradients, 'gradients', 'window with all gradients');
      show(KIND.weights, 'whole', 'window with all weights');
      show(KIND.gather, 'gather', 'all-gather, bytes sent', LANE - 7);
      show(KIND.reduce, 'sum', 'reduce-scatter, bytes sent', LANE - 7);
    });
  });
  return [data.zero > 2
    ? 'A worker keeps its own part of each unit of layers (the thin line). Just before a unit computes, the other parts are gathered into a window, by a thread that works ahead; once it has computed, the window is free for the unit after the next. So few units are whole at any moment, first in forward, then again in backward.'
    : 'Each worker holds all weights, and its own part of the optimiser’s vectors. Gradients are summed so that each worker gets the sum of its part (reduce-scatter); it updates that part, and then all get the updated weights (all-gather).',
  ...(data.zero > 1 ? ['In backward the gradients of a unit are whole in a window until they are summed: each worker keeps the sum of its own part, and the window is free. What overlaps with forward and backward costs no time of its own, if there are cores for it.'] : [])];
}

/* ---- tensor parallelism ---- */

const COLOURS = { '': 'same', first: 'first', inner: 'inner', second: 'second', outputs: 'first', table: 'second', tokens: 'tokens' };
const SHARES = { '': 'all of it, as every worker', first: 'rows of w', inner: 'between the two layers of a pair', second: 'columns of w', outputs: 'some of the words', table: 'some of the words' };
// as gs_tensor_collective in src/parallel/tensor.h
const ACTS = [['+', 'sum in the group'], ['g', 'all-gather in the group'], ['s', 'reduce-scatter in the group']];

function tensorLanes(id, from, to, name) {
  const LANE = 56, p = picture(id, from, to, data.workers.length * LANE, name);
  data.workers.forEach((w, r) => {
    const y = TOP + r * LANE;
    lane(p, y + 2, LANE - 10, `worker ${r}, group ${w.replica}`, `part ${w.part}${w.tokens ? `, tokens ${w.first_token}-${w.first_token + w.tokens - 1}` : ''}`);
    for (const s of of(r, KIND.phase)) {
      if (s.index === 3) bar(p, s, y + 2, LANE - 10, 'sum', '', [`worker ${r}: ${data.dp > 1 ? 'sum of gradients' : 'waits for its group'}`]);
      if (s.index === 4) bar(p, s, y + 2, LANE - 10, 'whole', '', [`worker ${r}: update`]);
    }
    for (const s of of(r, KIND.forward, KIND.backward)) {
      const [layer, role, isContainer] = data.layers[s.index];
      if (isContainer) continue;
      const way = s.kind === KIND.forward ? 'forward' : 'backward', share = role === 'tokens' ? `tokens ${w.first_token} to ${w.first_token + w.tokens - 1}` : (role ? `1/${data.tp} of it: ` : '') + (SHARES[role] || role);
      bar(p, s, y + 2, LANE - 28, COLOURS[role], p.to - p.from < .3 * took ? layer : '', [`${way} of ${layer}`, `worker ${r}: ${share}`]);
    }
    for (const s of of(r, KIND.groupSum))
      bar(p, s, y + LANE - 25, 16, s.index === 1 ? 'gather' : 'sum', ACTS[s.index][0], [`worker ${r}: ${ACTS[s.index][1]}`, `${grouped(s.count)} floats, ${shortBytes(s.bytes)} sent; with the wait for the others`], true);
  });
}

function tensor() {
  legend(['first', 'first layer of a pair: rows of w'], ['inner', 'between them, on the worker’s part'], ['second', 'second layer: columns'], ['sum', 'a sum, with the wait for it'],
    ...(data.workers[0].tokens ? [['gather', 'an all-gather'], ['tokens', 'the worker’s own tokens']] : [['same', 'computed by all alike']]), ['whole', 'update']);
  tensorLanes('picture', 0, took, 'What each worker computes, and when the group sums');
  const first = data.layers.findIndex((l) => l[1] === 'first'), second = data.layers.findIndex((l, i) => i > first && l[1] === 'second');
  const near = spans.filter((s) => s.kind === KIND.forward && s.index >= first && s.index <= second && !data.layers[s.index][2]);
  if (near.length > 0) {
    $('near-card').hidden = false;
    $('near-head').textContent = `The first pair in forward, layers ${data.layers[first][0]} to ${data.layers[second][0]}`;
    tensorLanes('near', Math.min(...near.map((s) => s.start)), Math.max(...near.map((s) => s.end)), $('near-head').textContent);
  }
  return ['In the first layer of a pair each worker has some rows of w, and computes some of the outputs; in the second layer these are its inputs, and it has the columns of w that read them. Between the two nothing is sent. The second layer gives each worker an addend of y, and the group sums these. In backward it is the other way round: dx of the first layer is summed.',
    (data.workers[0].tokens ? 'All other layers are computed for the worker’s own tokens of each sequence: what the group gathers in front of a pair, and scatters behind it. The bar' : 'All other layers are computed by all workers of the group, with the same bits. The bar') + ' of a sum includes the wait for the slower worker.'];
}

/* ---- words ---- */

const NAMES = { pipeline: 'A step of a pipeline', zero: `A step with ZeRO, stage ${data.zero}`, tensor: 'A step with tensor parallelism' };
$('head').textContent = NAMES[data.kind];
$('lead').replaceChildren('Step ', element('b', {}, String(data.step)), ' of ', element('b', {}, data.model), ' on ', element('b', {}, data.data),
  `, global batch ${data.batch}, ${data.workers.length} workers, `, element('code', {}, data.layout), `: traced, ${ms(took)}. Point at a bar for its numbers.`);
const read = { pipeline, zero, tensor }[data.kind]();
$('read').replaceChildren(...read.map((t) => element('p', {}, t)));
$('facts').replaceChildren(element('thead', {}, element('tr', {}, ...data.head.map((h) => element('th', { scope: 'col' }, h)))),
  element('tbody', {}, ...data.rows.map((row) => element('tr', {}, ...row.map((c) => element('td', {}, c))))));
$('sentences').replaceChildren(...data.sentences.map((t) => element('p', {}, t)));

/* Show a hint above content that is wider than its card. */
function overflowing() {
  for (const box of document.querySelectorAll('.wide')) {
    const hint = box.previousElementSibling?.classList.contains('hint') ? box.previousElementSibling : null, wide = box.scrollWidth > box.clientWidth + 1;
    if (!wide) hint?.remove();
    else if (!hint) box.before(element('p', { class: 'hint' }, 'It continues to the right: scroll sideways. →'));
  }
}
overflowing();
window.addEventListener('resize', overflowing);
$('made').textContent = `gradsum ${data.version}`;
