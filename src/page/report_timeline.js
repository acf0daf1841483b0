/* The timeline of some steps: a band for each worker, a row for each thread, bars for spans, arrows for messages. */
'use strict';

const KINDS = ['load', 'forward', 'backward', 'sync', 'update', 'message', 'step', 'other']; // tones and patterns: look.phases
const LANE = 19, HEAD = 34, GAP = 5, LEFT = 72; // px
const MOST_ROWS = 512;

/* Prepare a trace (report.h): bars sorted by start, a row for each thread of each worker, arrows with both ends, and
 * memory samples. A log may be damaged, so a field may be missing or have any type. */
function traceOf(raw) {
  const rows = new Map(), names = new Map(), flows = new Map(), bars = [], samples = [], kinds = Object.keys(AREAS);
  const whole = (x) => Number.isFinite(x) && x >= 0 ? Math.floor(x) : -1, text = (x) => typeof x === 'string' ? x : '';
  const rowOf = (pid, tid) => {
    const key = `${pid} ${tid}`;
    if (!rows.has(key)) rows.set(key, { pid, tid, text: ['compute', 'sync', 'loader'][tid] ?? `thread ${tid}` });
    return rows.get(key);
  };
  const kindOf = (cat) => cat === 'gather' ? 3 : cat === 'fetch' ? 0 : KINDS.includes(cat) ? KINDS.indexOf(cat) : 7; // ZeRO's gather is the other half of a sum
  for (const [ph, p, t, ts, dur, cat, name, id, args] of raw.events) {
    const pid = whole(p), tid = whole(t);
    if (ph === 'X') bars.push({ row: rowOf(pid, tid), kind: kindOf(cat), name: text(name), start: ts, end: ts + dur, step: whole(args) });
    else if (ph === 'M' && name === 'process_name') names.set(pid, text(args?.name));
    else if (ph === 'M' && name === 'thread_name') rowOf(pid, tid).text = text(args?.name);
    else if (ph === 'C' && name === 'memory') samples.push({ pid, ts, bytes: kinds.map((k) => args?.[k] >= 0 && args[k] < 1e18 ? args[k] : 0) });
    else if (ph === 's' || ph === 'f') {
      const flow = flows.get(String(id)) ?? {};
      flows.set(String(id), { ...flow, ...(ph === 's' ? { from: rowOf(pid, tid), sent: ts } : { to: rowOf(pid, tid), received: ts }) });
    }
  }
  const sorted = [...rows.values()].sort((a, b) => a.pid - b.pid || a.tid - b.tid).slice(0, MOST_ROWS);
  const pids = [...new Set(sorted.map((r) => r.pid))], place = new Map(sorted.map((r, i) => [r, i]));
  return {
    all: raw.all, workers: pids.map((pid) => names.get(pid) ?? `worker ${pid}`), rows: sorted.map((r) => [pids.indexOf(r.pid), r.text]),
    events: bars.filter((e) => place.has(e.row)).map((e) => ({ ...e, row: place.get(e.row) })).sort((a, b) => a.start - b.start || b.end - a.end),
    flows: [...flows.values()].filter((f) => place.has(f.from) && place.has(f.to)).map((f) => ({ ...f, from: place.get(f.from), to: place.get(f.to) })),
    memory: samples.length > 0 ? { kinds, samples: samples.map((s) => [pids.indexOf(s.pid), s.ts, ...s.bytes]) } : null,
  };
}
for (const run of runs) run.trace = traceOf(run.trace);

class Timeline {
  constructor(canvas) {
    Object.assign(this, { canvas, from: 0, to: 1, at: null, pointers: new Map() });
    this.context = canvas.getContext('2d');
    canvas.addEventListener('pointerdown', (e) => this.press(e));
    canvas.addEventListener('pointermove', (e) => this.move(e));
    for (const name of ['pointerup', 'pointercancel']) canvas.addEventListener(name, (e) => this.release(e));
    canvas.addEventListener('pointerleave', () => { if (!this.byKey) this.point(null); });
    canvas.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
    canvas.addEventListener('dblclick', (e) => this.zoom(.4, this.timeAt(e.offsetX)));
    canvas.addEventListener('keydown', (e) => this.key(e));
    canvas.addEventListener('blur', () => this.point(null));
  }

  /* ---- layout and view ---- */

  show(run) {
    const t = run.trace;
    this.workers = t.workers;
    this.events = t.events;
    this.flows = t.flows;
    this.layOut(t.rows);
    this.first = Math.min(...this.events.map((e) => e.start));
    this.last = Math.max(...this.events.map((e) => e.end));
    this.bounds = this.stepBounds();
    this.steps = [...this.bounds.keys()].sort((a, b) => a - b);
    this.at = null;
    this.all();
  }

  /* The start and end of each step. The loader works some steps ahead, so its bars are not counted. */
  stepBounds() {
    const bounds = new Map();
    for (const e of this.events) {
      if (e.step < 0 || this.rows[e.row].text === 'loader') continue;
      const [from, to] = bounds.get(e.step) || [e.start, e.end];
      bounds.set(e.step, [Math.min(from, e.start), Math.max(to, e.end)]);
    }
    return bounds;
  }

  /* Place each bar in the first free lane of its row; a bar inside another goes below it. Times may be rounded to
   * tenths of a microsecond. */
  layOut(rows) {
    const lanes = rows.map(() => []);
    for (const e of this.events) {
      const ends = lanes[e.row];
      let k = ends.findIndex((end) => end <= e.start + .25);
      if (k < 0) k = ends.length;
      if (k > 7) k = 7;
      ends[k] = e.end;
      e.lane = k;
    }
    let y = HEAD, before = -1;
    this.rows = rows.map(([worker, text], i) => {
      if (worker !== before) y += before < 0 ? 16 : 24;
      before = worker;
      const row = { worker, text, y, lanes: Math.max(1, lanes[i].length) };
      y += row.lanes * LANE + GAP;
      return row;
    });
    this.height = y + 4;
  }

  all() { $('line-step').value = 'all'; this.setView(this.first, this.last); }

  setView(from, to) {
    const whole = this.last - this.first || 1, size = clamp(to - from, Math.min(1, whole), whole * 1.04);
    const middle = (from + to) / 2, pad = .02 * whole;
    this.from = clamp(middle - size / 2, this.first - pad, this.last + pad - size);
    this.to = this.from + size;
    this.draw();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.setView(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }
  pan(part) { const d = part * (this.to - this.from); this.setView(this.from + d, this.to + d); }

  x(t) { return LEFT + (t - this.from) / (this.to - this.from) * (this.width - LEFT); }
  timeAt(x) { return this.from + (x - LEFT) / (this.width - LEFT) * (this.to - this.from); }
  top(e) { return this.rows[e.row].y + e.lane * LANE; }

  /* ---- drawing ---- */

  draw() {
    const scale = window.devicePixelRatio || 1, c = this.context;
    this.width = this.canvas.clientWidth;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    c.font = '11px system-ui, "Noto Sans", "DejaVu Sans", sans-serif';
    c.textBaseline = 'middle';
    this.fills = look.phases.map(patterned);
    this.drawTicks(c);
    this.drawRows(c);
    c.save();
    c.beginPath();
    c.rect(LEFT, 0, this.width - LEFT, this.height);
    c.clip();
    this.drawSteps(c);
    for (const e of this.events) if (e.end >= this.from && e.start <= this.to) this.drawBar(c, e);
    if ($('line-arrows').checked) this.drawArrows(c);
    if (this.at) this.outline(c, this.at);
    c.restore();
    $('line-where').textContent = `${shortTime((this.to - this.from) / 1e6)} of ${shortTime((this.last - this.first) / 1e6)}`;
  }

  drawTicks(c) {
    const about = (this.to - this.from) / Math.max(2, (this.width - LEFT) / 90), power = 10 ** Math.floor(Math.log10(about));
    const every = [1, 2, 5, 10].find((m) => m * power >= about) * power, ms = every >= 1000 || this.last >= 20000;
    c.textAlign = 'center';
    for (let t = Math.ceil(this.from / every) * every; t <= this.to; t += every) {
      const x = this.x(t);
      c.strokeStyle = look.line;
      c.beginPath();
      c.moveTo(x, 15);
      c.lineTo(x, this.height);
      c.stroke();
      c.fillStyle = look.soft;
      if (x < this.width - 24 && x > LEFT + 14) c.fillText(ms ? `${+(t / 1000).toFixed(4)} ms` : `${+t.toFixed(1)} µs`, x, 8);
    }
  }

  drawRows(c) {
    let before = -1;
    c.textAlign = 'left';
    for (const row of this.rows) {
      c.fillStyle = look.ink;
      c.font = '600 12px system-ui, "Noto Sans", "DejaVu Sans", sans-serif';
      if (row.worker !== before) c.fillText(this.workers[row.worker], 0, row.y - 9);
      before = row.worker;
      c.font = '11px system-ui, "Noto Sans", "DejaVu Sans", sans-serif';
      c.fillStyle = look.soft;
      c.fillText(short(row.text, 11), 0, row.y + LANE / 2 - 1);
      c.fillStyle = pale(look.faint, .22);
      c.fillRect(LEFT, row.y - 1, this.width - LEFT, row.lanes * LANE);
    }
  }

  drawSteps(c) {
    let free = LEFT; // the x to the right of the last word
    c.textAlign = 'left';
    for (const step of this.steps) {
      const [from] = this.bounds.get(step), word = `step ${step}`;
      if (from < this.from - 1 || from > this.to) continue;
      c.strokeStyle = look.soft;
      c.setLineDash([3, 3]);
      c.beginPath();
      c.moveTo(this.x(from), 17);
      c.lineTo(this.x(from), this.height);
      c.stroke();
      c.setLineDash([]);
      c.fillStyle = look.ink;
      if (this.x(from) < free) continue;
      c.fillText(word, this.x(from) + 3, 24);
      free = this.x(from) + c.measureText(word).width + 6;
    }
  }

  drawBar(c, e) {
    const x = this.x(e.start), width = Math.max(1, this.x(e.end) - x - (this.x(e.end) - x > 4 ? 1 : 0)), y = this.top(e);
    const colour = look.phases[e.kind];
    c.fillStyle = width < 26 ? colour : this.fills[e.kind]; // on a narrow bar a pattern cannot be recognised
    c.fillRect(x, y, width, LANE - 3);
    if (width < 26) return;
    const shown = Math.max(x, LEFT), room = Math.min(x + width, this.width) - shown - 6;
    const text = this.fit(c, e.name, room);
    if (!text) return;
    c.fillStyle = inkOn(colour);
    c.textAlign = 'left';
    c.fillText(text, shown + 3, y + LANE / 2 - 1);
  }

  fit(c, text, room) {
    if (c.measureText(text).width <= room) return text;
    const letters = Math.floor(room / 6.2) - 1;
    return letters >= 2 ? `${text.slice(0, letters)}…` : '';
  }

  drawArrows(c) {
    const seen = this.flows.filter((f) => f.received >= this.from && f.sent <= this.to);
    c.strokeStyle = c.fillStyle = pale(look.ink, seen.length > 300 ? .25 : .7);
    c.lineWidth = 1;
    for (const f of seen) {
      const x0 = this.x(f.sent), x1 = this.x(f.received), up = f.to < f.from;
      const edge = (row, below) => row.y + (below ? row.lanes * LANE - 5 : 2);
      const y0 = edge(this.rows[f.from], !up), y1 = edge(this.rows[f.to], up);
      const bend = Math.max(8, Math.abs(x1 - x0) / 2);
      c.beginPath();
      c.moveTo(x0, y0);
      c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      c.stroke();
      if (seen.length > 300) continue;
      c.beginPath();
      c.moveTo(x1, y1);
      c.lineTo(x1 - 7, y1 - 3);
      c.lineTo(x1 - 7, y1 + 3);
      c.fill();
    }
  }

  outline(c, e) {
    c.strokeStyle = look.focus;
    c.lineWidth = 2.5;
    c.strokeRect(this.x(e.start) - 1, this.top(e) - 1, Math.max(3, this.x(e.end) - this.x(e.start) + 1), LANE - 1);
    c.lineWidth = 1;
  }

  /* ---- one bar ---- */

  /* The shortest bar under or near the pointer. */
  hit(x, y) {
    const found = this.events.filter((e) => y >= this.top(e) && y < this.top(e) + LANE - 2 && x >= this.x(e.start) - 2 && x <= this.x(e.end) + 2);
    return found.reduce((a, b) => (a && a.end - a.start <= b.end - b.start ? a : b), null);
  }

  point(e, byKey = false) {
    const changed = e !== this.at;
    this.at = e;
    this.byKey = byKey && e !== null;
    if (!e) { $('tip').hidden = true; if (changed && this.events) this.draw(); return; }
    if (changed) this.draw();
  }

  tip(e, x, y) {
    const row = this.rows[e.row], line = (name, text) => element('tr', {}, element('th', {}, name), element('td', {}, text));
    showTip([element('b', {}, e.name), element('span', {}, `${this.workers[row.worker]}, ${row.text}`), element('table', {},
      line('kind', KINDS[e.kind]), line('takes', shortTime((e.end - e.start) / 1e6)), line('from', `${+(e.start / 1000).toFixed(4)} ms`),
      e.step >= 0 ? line('step', `${e.step}`) : null)], x, y);
    $('line-say').textContent = $('tip').textContent;
  }

  /* Go to the next bar in the row, or to the nearest bar in another row. */
  step(along, across) {
    const now = this.at;
    if (!now) { this.goTo(this.events.find((e) => e.end > this.from) || this.events[0]); return; }
    if (along) {
      const row = this.events.filter((e) => e.row === now.row), i = row.indexOf(now) + along;
      if (row[i]) this.goTo(row[i]);
      return;
    }
    for (let r = now.row + across; r >= 0 && r < this.rows.length; r += across) {
      const row = this.events.filter((e) => e.row === r);
      if (row.length === 0) continue;
      this.goTo(row.reduce((a, b) => (Math.abs(b.start - now.start) < Math.abs(a.start - now.start) ? b : a)));
      return;
    }
  }

  goTo(e) {
    const size = this.to - this.from;
    if (e.start < this.from || Math.min(e.end, e.start + size) > this.to) this.setView(e.start - .3 * size, e.start + .7 * size);
    this.point(e, true);
    const box = this.canvas.getBoundingClientRect();
    this.tip(e, box.left + clamp(this.x(e.start), LEFT, this.width), box.top + this.top(e) + LANE);
  }

  /* ---- pointer, wheel, keys ---- */

  press(e) {
    this.pointers.set(e.pointerId, e.offsetX);
    this.canvas.setPointerCapture(e.pointerId);
    this.canvas.classList.add('held');
    this.hover(e);
  }

  release(e) {
    this.pointers.delete(e.pointerId);
    if (this.pointers.size === 0) this.canvas.classList.remove('held');
  }

  move(e) {
    const before = this.pointers.get(e.pointerId);
    if (before === undefined) { this.hover(e); return; }
    const others = [...this.pointers].filter(([id]) => id !== e.pointerId).map(([, x]) => x);
    this.pointers.set(e.pointerId, e.offsetX);
    if (others.length === 0) { this.pan((before - e.offsetX) / (this.width - LEFT)); return; }
    const was = Math.abs(before - others[0]), is = Math.abs(e.offsetX - others[0]);
    if (was > 5 && is > 5) this.zoom(was / is, this.timeAt((e.offsetX + others[0]) / 2));
  }

  hover(e) {
    const found = this.hit(e.offsetX, e.offsetY);
    this.point(found);
    if (found) this.tip(found, e.clientX, e.clientY);
  }

  wheel(e) {
    if (!e.ctrlKey && !e.metaKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY)) return; // let the page scroll
    e.preventDefault();
    if (e.ctrlKey || e.metaKey) this.zoom(1.0015 ** e.deltaY, this.timeAt(e.offsetX));
    else this.pan(e.deltaX / this.width);
  }

  key(e) {
    const plain = { ArrowLeft: () => this.pan(-.2), ArrowRight: () => this.pan(.2), '+': () => this.zoom(.6), '=': () => this.zoom(.6),
      '-': () => this.zoom(1 / .6), Home: () => this.all(), 0: () => this.all(), Escape: () => this.point(null) };
    const shifted = { ArrowLeft: () => this.step(-1, 0), ArrowRight: () => this.step(1, 0), ArrowUp: () => this.step(0, -1), ArrowDown: () => this.step(0, 1), '+': plain['+'] };
    const action = (e.shiftKey ? shifted : plain)[e.key];
    if (!action || e.ctrlKey || e.altKey || e.metaKey) return;
    e.preventDefault();
    action();
  }
}

/* Dark text on a pale colour, white text on a dark one. */
function inkOn(hex) {
  return dark(hex) ? '#ffffff' : '#0d1b2a';
}
