/* The page: two schemes side by side on one clock, and its mouse and keyboard controls. */
'use strict';

const calm = window.matchMedia('(prefers-reduced-motion: reduce)');
const clock = { at: 0, playing: false, target: null, last: 0, unit: 'rounds' };
const ROUND_MS = 1700; // duration of a round on the screen, at speed 1

/* ---- a scheme on the page ---- */

class Stage {
  constructor(name) {
    this.box = element('section', { class: 'stage' });
    this.box.innerHTML = `
      <div class="head"><select aria-label="Scheme"></select><span class="what"></span></div>
      <p class="now"></p><div class="host"></div>
      <table class="costs"><thead><tr><th></th><th>so far</th><th>in all</th><th></th></tr></thead><tbody></tbody></table>`;
    this.menu = this.box.querySelector('select');
    for (const s of schemes) this.menu.add(new Option(s.name.replaceAll('_', ' '), s.name));
    this.drawing = new Drawing(this.box.querySelector('.host'));
    $('stages').append(this.box);
    this.menu.addEventListener('change', () => { this.choose(this.menu.value); rebuild(); });
    this.drawing.svg.addEventListener('pointermove', (e) => this.hover(e));
    this.drawing.svg.addEventListener('pointerdown', (e) => this.hover(e));
    this.drawing.svg.addEventListener('pointerleave', hideTip);
    this.choose(name);
  }

  choose(name) {
    this.scheme = schemes.find((s) => s.name === name);
    this.menu.value = this.menu.querySelector(`option[value="${name}"]`) ? name : '';
    if (!this.scheme) return;
    this.box.dataset.scheme = name;
    Object.assign(this.box.querySelector('.what'), { textContent: this.scheme.what, title: this.scheme.what });
    const { counted, formula } = totals(this.scheme), body = this.box.querySelector('tbody');
    const line = (id, title, text) => `<tr data-cost="${id}"><th>${title}</th><td class="so"></td><td class="all">${grouped(counted[id])}</td>
      <td class="is">${counted[id] !== formula[id] ? '≠ ' : !text || /^[≈≤]/.test(text) ? '' : '= '}${text}</td></tr>`;
    const [rounds, messages, bytes, most] = this.scheme.words.formula;
    body.innerHTML = line('rounds', 'rounds', rounds) + line('messages', 'messages', messages) + line('bytes', 'bytes', bytes) +
      line('most', 'busiest sends', most) +
      `<tr data-cost="seconds"><th>modelled time</th><td class="so"></td><td class="all">${shortTime(this.length('time'))}</td><td class="is"></td></tr>`;
  }

  length(unit) { return unit === 'rounds' ? this.scheme.rounds : this.scheme.ends[this.scheme.rounds]; }
  ends() { return clock.unit === 'rounds' ? this.scheme.ends.map((_, k) => k) : this.scheme.ends; }

  /* The number of finished rounds and the completed share of the next one, at a time on the clock. */
  place(at) {
    const ends = this.ends();
    let done = 0;
    while (done < this.scheme.rounds && at >= ends[done + 1] - 1e-9 * (1 + ends[done + 1])) done++;
    if (done === this.scheme.rounds) return [done, 0];
    const part = (at - ends[done]) / (ends[done + 1] - ends[done]);
    return [done, part < 1e-6 ? 0 : part];
  }

  show(at) {
    const [done, part] = this.place(at), costs = this.drawing.show(done, part);
    for (const id of ['rounds', 'messages', 'bytes', 'most'])
      this.box.querySelector(`[data-cost=${id}] .so`).textContent = grouped(costs[id]);
    this.box.querySelector('[data-cost=seconds] .so').textContent = shortTime(costs.seconds);
    this.box.dataset.done = done;
    const say = this.words(done, part);
    if (say !== this.said) this.box.querySelector('.now').innerHTML = this.said = say;
  }

  words(done, part) {
    if (done === 0 && part === 0)
      return '<b>Before.</b> Every worker holds the same model, and the gradient of its own images.';
    if (done === this.scheme.rounds)
      return '<b>Done.</b> Every worker holds the same sum, bit for bit, and makes the same update.';
    return this.scheme.words.round(part > 0 ? done + 1 : done, this.scheme.rounds);
  }

  build(most) {
    const style = getComputedStyle(this.box);
    this.drawing.build(this.scheme, this.box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight), most);
  }

  hover(event) {
    const target = event.target.closest('.token, .cell');
    if (!target) return hideTip();
    const token = event.target.closest('.token');
    pointAt(null);
    if (token) return showTip(this.aboutMessage(token.dataset.message), event.clientX, event.clientY);
    return showTip(this.aboutCell(+target.dataset.worker, +target.dataset.chunk), event.clientX, event.clientY);
  }

  /* ---- values ---- */

  elements(first, last) {
    const from = this.scheme.bounds[first], end = this.scheme.bounds[last + 1], names = paramsIn(from, end);
    const text = names.length > 4 ? `${names.slice(0, 2).join(', ')}, …, ${names.slice(-1)}` : names.join(', ');
    return `<tr><th>elements</th><td>${grouped(from)} … ${grouped(end - 1)}<br>of ${escapeText(text)}</td></tr>`;
  }

  numbers(row) {
    const v = values(row);
    return `<tr><th>some values</th><td>${v.some.map(plain).join(', ')}</td></tr>
      <tr><th>from … to</th><td>${plain(v.min)} … ${plain(v.max)}</td></tr><tr><th>norm</th><td class="norm">${plain(v.norm)}</td></tr>`;
  }

  aboutCell(r, c) {
    const cell = cellAt(this.scheme, this.drawing.done, this.drawing.part, r, c), who = members(cell.set);
    const sum = who.length === 1 ? `the gradient of worker ${who[0]} alone` :
      who.length === workers ? `the sum of all ${workers} gradients` : `the sum of workers ${who.join(' + ')}`;
    return `<b>worker ${r}, ${this.scheme.chunks === 1 ? 'the whole array' : `chunk ${chunkName(c)}`}</b>${sum}
      <table>${this.elements(c, c)}${cell.row === null ? '' : this.numbers(cell.row)}</table>`;
  }

  aboutMessage(id) {
    const { m } = this.drawing.moving.find((t) => t.token.dataset.message === id), last = m.chunk + m.parts.length - 1;
    const whose = members(m.parts[0].set), many = m.parts.length > 1;
    return `<b>worker ${m.from} → worker ${m.to}: ${grouped(m.bytes)} bytes</b>
      ${this.scheme.chunks === 1 ? 'the whole array' : many ? `chunks ${chunkName(m.chunk)} to ${chunkName(last)}` : `chunk ${chunkName(m.chunk)}`},
      with the gradient${whose.length > 1 ? 's' : ''} of ${whose.length === workers ? 'all' : whose.join(' + ')}
      <table>${this.elements(m.chunk, last)}${many ? '' : this.numbers(m.parts[0].row)}</table>`;
  }
}

/* ---- text ---- */

const plain = (x) => x === null ? 'not a number' : String(x).replace('-', '−').replace('e−', 'e-');

function lead() {
  const samples = data.workers.map((w) => w[0]), loss = data.workers.reduce((n, w) => n + w[1], 0) / data.batch;
  const each = Math.min(...samples) === Math.max(...samples) ? samples[0] : `${Math.min(...samples)} or ${Math.max(...samples)}`;
  $('lead').innerHTML = `${workers} workers train <b>${escapeText(data.model)}</b> on <b>${escapeText(data.data)}</b>. Each has
    computed the gradient of its own ${each} images (mean loss ${loss.toPrecision(4)}): <b>${grouped(data.floats)} floats</b>,
    B = ${grouped(4 * data.floats)} bytes. Now every worker needs the sum of all ${workers}. Who sends what to whom?`;
  $('made').innerHTML = `These are the gradients of the first step of <code>gradsum train --model ${escapeText(data.model)}
    --data ${escapeText(data.data)} --batch ${data.batch}</code>, summed by the same code and recorded as it ran
    (gradsum ${escapeText(data.version)}). In the formulas N = ${N}${E > 0 ? `, P = ${P} (the power of two below), E = N − P = ${E}` : ''}.`;
}

/* Suggest a model for the opposite case: from about 60 kB on, a message's bytes take more time than its latency. */
function another() {
  const bytes = 4 * data.floats, large = bytes * link.beta > link.alpha;
  $('try').innerHTML = `Here it is ${shortBytes(bytes)}: ${large ? 'bytes count' : 'rounds count'}. For the other case make this page with
    <code>--model ${large ? 'softmax' : 'mlp'}</code>.`;
}

function legend() {
  $('ramp').replaceChildren(...data.workers.map((_, i) => element('span',
    { style: `background: ${colours.ramp[i + 1]}; color: ${colours.ink[i + 1]}` }, i + 1 === workers ? `${i + 1} ✓` : i + 1)));
}

/* ---- values on hover, and under the keyboard cursor ---- */

const cursor = { stage: 0, worker: null, chunk: 0 };

function hideTip() {
  if (cursor.worker === null) $('tip').hidden = true;
}

/* Move the cursor to a cell of a stage; null removes the cursor. */
function pointAt(worker, chunk) {
  cursor.worker = worker;
  for (const s of stages) s.drawing.point(null);
  if (worker === null) { $('tip').hidden = true; return; }
  const stage = stages[cursor.stage];
  cursor.chunk = clamp(chunk, 0, stage.scheme.chunks - 1);
  const box = stage.drawing.point(worker, cursor.chunk).getBoundingClientRect();
  showTip(stage.aboutCell(worker, cursor.chunk), box.left + Math.min(60, box.width / 2), box.bottom - 12);
  $('say').textContent = $('tip').textContent;
}

function moveCursor(key) {
  const focused = stages.findIndex((s) => s.box.contains(document.activeElement));
  if (focused >= 0 && focused !== cursor.stage) Object.assign(cursor, { stage: focused, worker: null });
  if (cursor.worker === null) return pointAt(0, 0);
  const down = key === 'ArrowDown' ? 1 : key === 'ArrowUp' ? -1 : 0, right = key === 'ArrowRight' ? 1 : key === 'ArrowLeft' ? -1 : 0;
  let { stage, worker, chunk } = cursor;
  chunk += right;
  if (chunk < 0 && stage > 0) { cursor.stage--; chunk = 99; }
  else if (chunk >= stages[stage].scheme.chunks && stage + 1 < stages.length) { cursor.stage++; chunk = 0; }
  return pointAt(clamp(worker + down, 0, workers - 1), chunk);
}

/* ---- the clock ---- */

const length = () => Math.max(...stages.map((s) => s.length(clock.unit)));

/* The times at which a round of either scheme ends, in order. */
function stops() {
  const all = stages.flatMap((s) => s.ends()).sort((a, b) => a - b);
  return all.filter((x, i) => i === 0 || x - all[i - 1] > 1e-9 * length());
}

/* The end of a round nearest to the slider, if it is close. */
function snapped(at) {
  const all = stops(), close = .06 * length() / (all.length - 1);
  return all.find((x) => Math.abs(x - at) < close) ?? at;
}

let shown = ''; // the text next to the slider
function show() {
  for (const s of stages) s.show(clock.at);
  const slider = $('slider'), end = length(), tiny = 1e-6 * end;
  slider.max = end;
  slider.value = clock.at;
  const most = stages.reduce((a, b) => b.scheme.rounds > a.scheme.rounds ? b : a), [done, part] = most.place(clock.at);
  const where = clock.unit === 'time' ? `${shortTime(clock.at)} of ${shortTime(end)}` :
    `round ${Math.min(done + (part > 0), most.scheme.rounds)} of ${most.scheme.rounds}`;
  if (where !== shown) {
    shown = where;
    $('where').innerHTML = where.replace('round', '<span>round</span>');
  }
  slider.setAttribute('aria-valuetext', where);
  $('first').disabled = $('back').disabled = clock.at <= tiny;
  $('next').disabled = clock.at >= end - tiny;
  if (cursor.worker !== null) pointAt(cursor.worker, cursor.chunk);
}

function setPlaying(on) {
  clock.playing = on;
  $('play').setAttribute('aria-pressed', on);
  $('play').setAttribute('aria-label', on ? 'Pause' : 'Play');
}

/* How far the clock advances in a millisecond of real time. */
function pace() {
  const rounds = Math.max(...stages.map((s) => s.scheme.rounds));
  return +$('speed').value * length() / rounds / ROUND_MS;
}

function tick(now) {
  if (clock.target === null) return;
  const passed = Math.min(100, now - clock.last) * pace() * (clock.playing ? 1 : 1.5);
  clock.last = now;
  clock.at = Math.min(clock.target, clock.at + passed);
  if (clock.at >= clock.target) { clock.target = null; setPlaying(false); announce(); }
  show();
  if (clock.target !== null) requestAnimationFrame(tick);
}

function runTo(target, playing) {
  if (calm.matches && !playing) return jump(target);
  const standing = clock.target === null;
  clock.target = target;
  setPlaying(playing);
  if (standing) { clock.last = performance.now(); requestAnimationFrame(tick); }
  return show();
}

function jump(to) {
  clock.target = null;
  setPlaying(false);
  clock.at = clamp(to, 0, length());
  show();
  announce();
}

function announce() {
  $('say').textContent = stages.map((s) => `${s.scheme.name}: ${s.box.querySelector('.now').textContent}`).join(' ');
}

const tiny = () => 1e-6 * length();
const actions = {
  next() {
    if (clock.target !== null) jump(stops().find((x) => x >= clock.at - tiny()) ?? length()); // finish the running move at once
    const stop = stops().find((x) => x > clock.at + tiny());
    if (stop !== undefined) runTo(stop, false);
  },
  back() { jump(stops().reverse().find((x) => x < clock.at - tiny()) ?? 0); },
  first() { jump(0); },
  last() { jump(length()); },
  play() {
    if (clock.playing) { clock.target = null; setPlaying(false); return; }
    if (clock.at >= length() - tiny()) clock.at = 0;
    runTo(length(), true);
  },
};

/* ---- all together ---- */

function rebuild() {
  const most = Math.max(...stages.map((s) => totals(s.scheme).counted.most));
  pointAt(null);
  for (const s of stages) s.build(most);
  const rounds = Math.max(...stages.map((s) => s.scheme.rounds)), every = Math.ceil(rounds / 16);
  const marks = clock.unit === 'rounds' ? Array.from({ length: rounds + 1 }, (_, k) => k).filter((k) => k % every === 0) : [];
  $('ticks').replaceChildren(...marks.map((k) => element('span', { style: `left: ${100 * k / rounds}%` }, k)));
  clock.at = clamp(clock.at, 0, length());
  if (clock.target !== null) clock.target = Math.min(clock.target, length());
  show();
}

function onKey(event) {
  const at = event.target.tagName, keys = { ArrowRight: 'next', ArrowLeft: 'back', Home: 'first', End: 'last', ' ': 'play' };
  if (event.ctrlKey || event.altKey || event.metaKey || at === 'SELECT') return;
  if (event.shiftKey && event.key.startsWith('Arrow')) { event.preventDefault(); moveCursor(event.key); return; }
  if (event.key === 'Escape') { pointAt(null); return; }
  if (!keys[event.key] || (at === 'BUTTON' && event.key === ' ')) return;
  event.preventDefault();
  actions[keys[event.key]]();
}

const stages = [data.show, data.show === 'ps' ? 'ring' : 'ps'].slice(0, framed ? 1 : 2).map((name) => new Stage(name));

for (const id of ['first', 'back', 'play', 'next']) $(id).addEventListener('click', actions[id]);
$('slider').addEventListener('input', (e) => jump(snapped(+e.target.value)));
$('clock').addEventListener('change', (e) => { clock.unit = e.target.value; clock.at = 0; clock.target = null; setPlaying(false); rebuild(); });
document.addEventListener('keydown', onKey);
document.addEventListener('pointerdown', (e) => { if (!e.target.closest('.cell, .token')) pointAt(null); });
window.addEventListener('resize', rebuild);
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); legend(); rebuild(); });

readColours();
legend();
lead();
another();
rebuild();
// In a frame it begins to move when it comes into view, once.
if (framed && !calm.matches) {
  const seen = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    seen.disconnect();
    if (clock.at === 0) actions.play();
  }, { threshold: .9 });
  seen.observe($('stages'));
}
