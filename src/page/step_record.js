/* Prepares the page's record: what each worker holds after each round, when each message travels, and the formulas.
 * Draws nothing. src/cli/step/page.c describes the data.
 */
'use strict';

const workers = data.workers.length;
const everybody = 2 ** workers - 1;
const link = { alpha: 50e-6, beta: 0.8e-9 }; // seconds per message, seconds per byte (10 Gbit/s)

const bitCount = (set) => { let n = 0; for (; set; set &= set - 1) n++; return n; };
const members = (set) => data.workers.map((_, r) => r).filter((r) => set >> r & 1);
const chunkName = (c) => String.fromCharCode(97 + c % 26) + (c < 26 ? '' : Math.floor(c / 26));

/* Row i of the record: a chunk's contents, summarised in a few numbers. */
function values(i) {
  const [norm, min, max, some, bars] = data.rows[i];
  return { norm, min, max, some, bars };
}

/* ---- formulas and words: N workers, P the largest power of two up to N, E = N - P ---- */

const N = workers, L = Math.ceil(Math.log2(N)), Q = Math.floor(Math.log2(N)), P = 2 ** Q, E = N - P;
const fold = E > 0 ? ' + 2' : '', foldMessages = E > 0 ? ' + 2 E' : '';

/* Before the exchange, some workers pass their gradients to partners, which pass the sum back afterwards. */
const folded = {
  before: `<b>Fold in.</b> ${N} is no power of two: ${several(E, 'worker')} hand${E === 1 ? 's' : ''} the gradient to a partner,
    and wait${E === 1 ? 's' : ''}; ${P} workers go on.`,
  after: `<b>Fold out.</b> ${E === 1 ? 'The worker that waited gets' : 'The workers that waited get'} the sum from the partner.`,
};

const schemeWords = {
  ps: {
    formula: ['2', '2 (N − 1)', '2 (N − 1) B', '(N − 1) B'],
    round: (r) => r === 1 ?
      '<b>Collect.</b> Every worker sends its whole gradient to worker 0, the server, which adds them one after another.' :
      `<b>Return.</b> Worker 0 sends the sum back, ${N - 1} times: all of it passes through one worker.`,
  },
  sharded_ps: {
    formula: ['2', '2 N (N − 1)', '2 (N − 1) B', '≈ 2 (N − 1)/N B'],
    round: (r) => r === 1 ?
      '<b>Collect.</b> Every worker is the server of one chunk: it gets that chunk from all others and adds.' :
      '<b>Return.</b> Every worker sends its finished chunk to all others: everybody talks to everybody.',
  },
  ring: {
    formula: ['2 (N − 1)', '2 N (N − 1)', '2 (N − 1) B', '≈ 2 (N − 1)/N B'],
    round: (r) => r < N ?
      `<b>Reduce-scatter, ${r} of ${N - 1}.</b> Every worker passes a chunk on to its right neighbour, which adds it to its own.` :
      `<b>All-gather, ${r - N + 1} of ${N - 1}.</b> The finished chunks go round once more: now they are copied, not added.`,
  },
  tree: {
    formula: ['2 ⌈log₂ N⌉', '2 (N − 1)', '2 (N − 1) B', '≤ ⌈log₂ N⌉ B'],
    round: (r) => r <= L ?
      `<b>Up the tree, distance ${2 ** (r - 1)}.</b> When two workers meet, one sends all it has, and the other adds it.` :
      `<b>Down the tree, distance ${2 ** (2 * L - r)}.</b> The sum of all goes back the way it came.`,
  },
  recursive_doubling: {
    formula: [`log₂ P${fold}`, `P log₂ P${foldMessages}`, E > 0 ? '(P log₂ P + 2 E) B' : 'N log₂ N B',
      `${E > 0 ? '(log₂ P + 1)' : 'log₂ N'} B`],
    round: (r, R) => E > 0 && r === 1 ? folded.before : E > 0 && r === R ? folded.after :
      `<b>Exchange, distance ${2 ** (r - 1 - (E > 0))}.</b> Two partners send each other all that they have, and both add.`,
  },
  halving_doubling: {
    formula: [`2 log₂ P${fold}`, `2 P log₂ P${foldMessages}`, `2 (P − 1${E > 0 ? ' + E' : ''}) B`,
      `≈ ${E > 0 ? '(2 (P − 1)/P + 1)' : '2 (N − 1)/N'} B`],
    round: (r, R) => {
      if (E > 0 && r === 1) return folded.before;
      if (E > 0 && r === R) return folded.after;
      const k = r - (E > 0);
      return k <= Q ?
        `<b>Halving, distance ${2 ** (k - 1)}.</b> Each partner keeps one half of what it has, sends the other, and adds what comes.` :
        `<b>Doubling, distance ${2 ** (2 * Q - k)}.</b> Partners exchange what they have finished, and keep both.`;
    },
  },
};
if (E === 0) for (const words of Object.values(schemeWords)) words.formula = words.formula.map((f) => f.replaceAll('P', 'N'));

/* Words for a scheme that is not in the table. */
const otherWords = (raw) => ({ formula: ['', '', '', ''], round: (r, R) => `<b>Round ${r} of ${R}.</b> ${raw.what}` });

/* ---- one scheme ---- */

/* Compute when the messages of a round travel. A worker sends one message at a time and receives one at a time, in the
 * order of the record. Sets start and end as shares of the round, and returns the round's length in seconds. */
function schedule(messages) {
  const out = new Array(workers).fill(0), into = new Array(workers).fill(0);
  for (const m of messages) {
    m.start = Math.max(out[m.from], into[m.to]);
    m.end = out[m.from] = into[m.to] = m.start + link.alpha + link.beta * m.bytes;
  }
  const length = Math.max(0, ...messages.map((m) => m.end));
  for (const m of messages) { m.start /= length; m.end /= length; }
  return length;
}

/* The highest bar that each chunk ever has: one scale for all workers and rounds. */
function barScales(scheme) {
  const scale = new Array(scheme.chunks).fill(0);
  const look = (c, row) => { for (const b of values(row).bars) scale[c] = Math.max(scale[c], Math.abs(b)); };
  scheme.held.forEach((state) => state.forEach((cells) => cells.forEach((cell, c) => look(c, cell.row))));
  return scale;
}

function prepare(raw) {
  const s = { name: raw.name, what: raw.what, rounds: raw.rounds, bounds: raw.bounds, chunks: raw.bounds.length - 1,
    counted: raw.counted, formula: raw.formula, words: schemeWords[raw.name] ?? otherWords(raw) };

  s.held = [raw.start.map((cells) => cells.map(([set, row]) => ({ set, row })))]; // [round][worker][chunk]
  for (let k = 1; k <= s.rounds; k++) s.held.push(s.held[k - 1].map((cells) => cells.slice()));
  for (const [round, r, c, set, row] of raw.changes)
    for (let k = round; k <= s.rounds; k++) s.held[k][r][c] = { set, row };

  s.messages = Array.from({ length: s.rounds + 1 }, () => []); // [round], counted from 1
  for (const [round, from, to, chunk, rows] of raw.messages) {
    const parts = rows.map((row, i) => ({ row, set: s.held[round - 1][from][chunk + i].set }));
    const floats = s.bounds[chunk + rows.length] - s.bounds[chunk];
    s.messages[round].push({ round, from, to, chunk, parts, bytes: 4 * floats });
  }
  s.ends = [0]; // each round's end, in seconds by the model
  for (let k = 1; k <= s.rounds; k++) s.ends.push(s.ends[k - 1] + schedule(s.messages[k]));
  s.scale = barScales(s);
  return s;
}

const schemes = data.schemes.map(prepare);

/* ---- the state at a point in time: `done` rounds, and the share `part` of the next one ---- */

/* Worker r's chunk c. Within a round, an incoming part that has no worker in common with the chunk is added to it; any
 * other part replaces it. */
function cellAt(s, done, part, r, c) {
  const before = s.held[done][r][c];
  if (done === s.rounds || part === 0) return before;
  let set = before.set, bars = null;
  for (const m of s.messages[done + 1]) {
    if (m.to !== r || c < m.chunk || c >= m.chunk + m.parts.length || m.end > part) continue;
    const came = m.parts[c - m.chunk], adds = (came.set & set) === 0;
    const old = bars || values(before.row).bars;
    bars = values(came.row).bars.map((b, i) => adds ? b + old[i] : b);
    set = adds ? set | came.set : came.set;
  }
  return set === before.set ? before : { set, bars, row: s.held[done + 1][r][c].set === set ? s.held[done + 1][r][c].row : null };
}

/* The counts so far; a message counts once it has arrived. */
function costsAt(s, done, part) {
  const sent = new Array(workers).fill(0);
  let messages = 0;
  for (let k = 1; k <= Math.min(done + 1, s.rounds); k++)
    for (const m of s.messages[k])
      if (k <= done || m.end <= part) { messages++; sent[m.from] += m.bytes; }
  return { rounds: done, messages, bytes: sent.reduce((a, b) => a + b, 0), most: Math.max(...sent), sent,
    seconds: s.ends[done] + (done < s.rounds ? part * (s.ends[done + 1] - s.ends[done]) : 0) };
}

/* [counted, formula] for rounds, messages, bytes, and the bytes of the worker that sends the most. */
function totals(s) {
  const of = (list) => ({ rounds: Math.max(...list.map((c) => c[0])), messages: list.reduce((n, c) => n + c[1], 0),
    bytes: list.reduce((n, c) => n + c[2], 0), most: Math.max(...list.map((c) => c[2])) });
  return { counted: of(s.counted), formula: of(s.formula) };
}

/* The names of the parameters among elements first .. end - 1. */
function paramsIn(first, end) {
  const names = data.params.filter(([, at, count]) => at < end && at + count > first).map(([name]) => name);
  if (end > data.floats - 4) names.push('loss, correct, samples, stop');
  return names;
}
