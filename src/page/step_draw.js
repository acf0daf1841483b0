/* The drawing of one scheme: a row for each worker, a column for each chunk, and messages that move between rows. */
'use strict';

const ease = (x) => x < .5 ? 4 * x ** 3 : 1 - (2 - 2 * x) ** 3 / 2;

/* ---- colours ---- */

const colours = { ramp: [], ink: [] };

/* Interpolate the style sheet's four colours to get one for each count, with dark ink on pale ones. */
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const stops = [0, 1, 2, 3].map((i) => channels(style.getPropertyValue(`--c${i}`).trim()));
  for (let count = 1; count <= workers; count++) {
    const x = 3 * (count - 1) / (workers - 1), i = Math.min(2, Math.floor(x));
    const mix = stops[i].map((a, k) => Math.round(a + (x - i) * (stops[i + 1][k] - a)));
    const light = (0.2126 * mix[0] + 0.7152 * mix[1] + 0.0722 * mix[2]) / 255;
    colours.ramp[count] = `rgb(${mix})`;
    colours.ink[count] = light > .48 ? '#0d1b2a' : '#ffffff';
  }
}

/* ---- a chunk, in a row or in a message ---- */

class Chunk {
  constructor(parent, width, height, scale) {
    const low = height < 30, thin = width < 30;
    Object.assign(this, { width, height, scale, shown: null });
    this.group = svg('g', { class: 'cell' }, parent);
    this.box = svg('rect', { class: 'box', width, height, rx: Math.min(5, width / 6) }, this.group);
    this.bars = svg('path', {}, this.group);
    this.count = width < 13 ? null : svg('text', { class: 'count', x: thin ? width / 2 : 6, y: thin && low ? height / 2 + 4 : 14,
      'text-anchor': thin ? 'middle' : 'start' }, this.group);
    this.full = svg('rect', { class: 'full', x: 1, y: 1, width: Math.max(0, width - 2), height: height - 2,
      rx: Math.min(4, width / 6) }, this.group);
    this.dots = this.buildDots();
    this.high = thin && low ? 2 : low && !thin ? 4 : 17; // where the bars begin and end
    this.deep = height - (this.dots === 'below' ? 12 : 3);
    this.barsFrom = !low || thin ? 4 : this.dots ? 52 + Math.min(10, .6 * (width - 52) / workers) * workers : 22;
  }

  /* Dots that show whose gradients a chunk contains: beside the count, below it, or omitted if there is no room. */
  buildDots() {
    const beside = this.width - 52, below = this.height >= 40 ? this.width - 12 : 0, room = Math.max(beside, below);
    const step = Math.min(10, room / workers * (beside >= below && this.height < 30 ? .6 : 1)), r = Math.min(3, step / 2 - .9), x = beside >= below ? 46 : 6;
    if (step < 6) return null;
    this.marks = data.workers.map((_, w) => svg('circle', { cx: x + step * w + r, cy: x === 46 ? 10 : this.height - 4 - r, r }, this.group));
    return x === 46 ? 'beside' : 'below';
  }

  /* The gradient's bars, drawn around the middle line. */
  path(bars) {
    const room = this.deep - this.high, middle = this.high + room / 2, w = (this.width - 4 - this.barsFrom) / bars.length;
    let d = '';
    bars.forEach((b, i) => {
      const h = clamp((b || 0) / (this.scale || 1), -1, 1) * room / 2, x = this.barsFrom + i * w;
      d += `M${x.toFixed(1)} ${middle.toFixed(1)}h${(w * .78).toFixed(1)}v${(-h || -.4).toFixed(1)}h${(-w * .78).toFixed(1)}z`;
    });
    return d;
  }

  show(cell) {
    const key = `${cell.set}/${cell.row}/${colours.ramp[1]}`;
    if (this.shown === key) return;
    this.shown = key;
    const count = bitCount(cell.set), ink = colours.ink[count] || colours.ink[1];
    this.box.setAttribute('fill', colours.ramp[count] || 'none');
    this.bars.setAttribute('d', this.path(cell.bars || values(cell.row).bars));
    this.bars.setAttribute('fill', ink);
    this.bars.setAttribute('opacity', this.height < 30 ? .28 : .5);
    this.group.classList.toggle('all', cell.set === everybody);
    if (this.count) {
      this.count.textContent = cell.set === everybody && this.width >= 30 ? `${count} ✓` : count;
      this.count.style.fill = ink;
    }
    if (this.dots) this.marks.forEach((dot, w) => {
      const has = cell.set >> w & 1;
      dot.setAttribute('fill', has ? ink : 'none');
      dot.setAttribute('stroke', ink);
      dot.setAttribute('stroke-opacity', has ? 1 : .35);
    });
  }
}

/* ---- one scheme ---- */

class Drawing {
  constructor(host) {
    this.host = host;
    this.svg = svg('svg', { class: 'draw', tabindex: 0, role: 'img' });
    host.append(this.svg);
  }

  /* Build the parts that stay fixed for this scheme and width; show() sets what changes. */
  build(scheme, width, most) {
    width = Math.max(width, 1); // while a box is laid out again, its width may briefly be negative
    const narrow = width < 470, high = window.innerHeight || 800;
    const row = clamp(Math.floor((high - 462) / workers), workers > 8 ? 26 : 36, 66);
    Object.assign(this, { scheme, width, most, narrow, row, cellHeight: row - (row < 32 ? 7 : 10) });
    this.label = narrow ? 26 : 84;
    this.gutter = narrow ? 30 : 46;
    this.left = this.label + this.gutter;
    this.chunkWidth = Math.max(4, (width - this.left - (narrow ? 5 : 68)) / scheme.chunks); // even if there is no room
    this.top = 18;
    this.svg.replaceChildren();
    this.svg.setAttribute('viewBox', `0 0 ${width} ${this.top + workers * row + 2}`);
    this.svg.setAttribute('aria-label', `${scheme.name}: ${workers} workers, ${scheme.chunks} chunks`);
    this.arcs = svg('g', {}, this.svg);
    this.rows = data.workers.map((w, r) => this.buildRow(r));
    for (let c = 0; c < scheme.chunks; c++)
      svg('text', { class: 'chunk', x: this.x(c) + (this.chunkWidth - 3) / 2, y: 12, 'text-anchor': 'middle' }, this.svg)
        .textContent = scheme.chunks === 1 ? 'the whole array' : chunkName(c);
    this.over = svg('g', {}, this.svg);
    this.round = -1;
  }

  x(c) { return this.left + c * this.chunkWidth; }
  y(r) { return this.top + r * this.row; }

  buildRow(r) {
    const y = this.y(r), mid = y + this.cellHeight / 2, g = svg('g', {}, this.svg), size = Math.min(11, this.row / 2 - 3);
    const disc = svg('circle', { class: 'disc', cx: 13, cy: mid, r: size }, g);
    svg('text', { class: 'name', x: 13, y: mid + 4.5, 'text-anchor': 'middle' }, g).textContent = r;
    if (!this.narrow) {
      const two = this.row >= 34;
      svg('text', { class: 'sub', x: 30, y: mid + (two ? -2 : 4) }, g).textContent = 'worker';
      if (two) svg('text', { class: 'sub', x: 30, y: mid + 11 }, g).textContent = `${data.workers[r][0]} images`;
    }
    const cells = [];
    for (let c = 0; c < this.scheme.chunks; c++) {
      const cell = new Chunk(g, Math.max(2, this.chunkWidth - 3), this.cellHeight, this.scheme.scale[c]);
      cell.group.setAttribute('transform', `translate(${this.x(c)} ${y})`);
      Object.assign(cell.group.dataset, { worker: r, chunk: c });
      cells.push(cell);
    }
    const length = this.scheme.chunks * this.chunkWidth - 3;
    svg('rect', { class: 'rail', x: this.left, y: y + this.cellHeight + 3, width: length, height: 3, rx: 1.5 }, g);
    const bytes = this.scheme.counted.map((cost) => cost[2]), mean = bytes.reduce((a, b) => a + b) / workers;
    const sent = svg('rect', { class: bytes[r] > 1.5 * mean ? 'sent most' : 'sent', x: this.left, y: y + this.cellHeight + 3, width: 0, height: 3, rx: 1.5 }, g);
    const text = this.narrow ? null : svg('text', { class: 'sub', x: this.width - 62, y: mid + 4 }, g);
    return { disc, cells, sent, text, length };
  }

  /* Build the arcs and messages of one round. */
  buildRound(round) {
    this.round = round;
    this.arcs.replaceChildren();
    this.over.replaceChildren();
    const messages = this.scheme.messages[round] || [], both = messages.some((m) => messages.some((o) => o.to === m.from && o.from === m.to));
    this.moving = messages.map((m) => {
      const up = m.to < m.from, near = this.left - 7, y0 = this.y(m.from) + this.cellHeight / 2 + (up ? -3 : 3);
      const y1 = this.y(m.to) + this.cellHeight / 2 + (up ? 4 : -4), far = Math.abs(m.to - m.from) / Math.max(2, workers - 1);
      const bend = near - (this.gutter - 12) * (.45 + .55 * far) * 1.3;
      const arc = svg('path', { class: 'arc', d: `M${near} ${y0}C${bend} ${y0} ${bend} ${y1} ${near - 3} ${y1}` }, this.arcs);
      const tip = svg('path', { class: 'tip-of', d: `M${near + 3} ${y1}l-7 -3.6v7.2z` }, this.arcs);
      const height = Math.max(15, Math.round(this.cellHeight * (both ? .56 : .74))), token = svg('g', { class: 'token' }, this.over);
      const chunks = m.parts.map((part, i) => {
        const chunk = new Chunk(token, Math.max(2, this.chunkWidth - 3), height, this.scheme.scale[m.chunk + i]);
        chunk.group.setAttribute('transform', `translate(${i * this.chunkWidth} 0)`);
        chunk.show(part);
        return chunk;
      });
      token.dataset.message = `${m.from}-${m.to}-${m.chunk}`;
      const lane = !both ? (this.cellHeight - height) / 2 : up ? -4 : this.cellHeight - height + 4; // one lane for each direction
      return { m, arc, tip, token, chunks, lane };
    });
  }

  /* Show `done` rounds and the share `part` of the next one. At rest, the last round's arcs remain, but pale. */
  show(done, part) {
    const s = this.scheme, round = part > 0 ? done + 1 : done, at = part > 0 ? part : 1;
    if (round !== this.round) this.buildRound(round);
    this.done = done;
    this.part = part;
    const busy = new Set();
    for (const t of this.moving) {
      const f = (at - t.m.start) / (t.m.end - t.m.start), live = part > 0 && f > 0 && f < 1;
      if (live) busy.add(t.m.from).add(t.m.to);
      for (const e of [t.arc, t.tip]) {
        e.classList.toggle('live', live);
        e.classList.toggle('done', f >= 1);
      }
      t.token.style.display = live ? '' : 'none';
      if (!live) continue;
      const way = ease(f), up = t.m.to < t.m.from, bow = Math.sin(Math.PI * way) * (this.narrow ? 5 : 8) * (up ? -1 : 1);
      const y = this.y(t.m.from) + way * (this.y(t.m.to) - this.y(t.m.from)) + t.lane;
      t.token.setAttribute('transform', `translate(${(this.x(t.m.chunk) + bow).toFixed(1)} ${y.toFixed(1)})`);
    }
    const costs = costsAt(s, done, part);
    this.rows.forEach((row, r) => {
      row.cells.forEach((cell, c) => cell.show(cellAt(s, done, part, r, c)));
      row.disc.classList.toggle('busy', busy.has(r));
      row.sent.setAttribute('width', row.length * costs.sent[r] / this.most);
      if (row.text) row.text.textContent = costs.sent[r] ? `↑ ${shortBytes(costs.sent[r])}` : '';
    });
    return costs;
  }

  /* Mark the cell under the keyboard cursor. */
  point(r, c) {
    this.svg.querySelectorAll('.cell.at').forEach((e) => e.classList.remove('at'));
    if (r === null) return null;
    const group = this.rows[r].cells[c].group;
    group.classList.add('at');
    return group;
  }
}
