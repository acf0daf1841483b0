/* The page of an evaluation: the confusion matrix as a table, or as a map if there are many classes; the most common
 * mistakes; and the samples with the largest loss. */
'use strict';

const TABLE_CLASSES = 32, MISTAKES = 12;
const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)} %`;

const nameOf = (k) => data.names[k] ?? String(k);

/* ---- counts ---- */

const rowSum = new Map();
for (const [label, , samples] of data.confusion) rowSum.set(label, (rowSum.get(label) ?? 0) + samples);
const countOf = new Map(data.confusion.map(([label, taken, samples]) => [label * data.classes + taken, samples]));
const count = (label, taken) => countOf.get(label * data.classes + taken) ?? 0;
const share = (label, taken) => rowSum.has(label) ? count(label, taken) / rowSum.get(label) : 0;

function lead() {
  const parts = [element('b', {}, percent(data.accuracy, 2)), ` of ${several(data.samples, 'sample')} of `, element('b', {}, data.data), ' are recognised'];
  if (data.top5 !== null && data.classes > 10) parts.push('; the label is among the five likeliest classes for ', element('b', {}, percent(data.top5, 2)));
  parts.push(`. Mean loss ${data.loss ?? 'not finite'}. Weights: ${data.load}.`);
  $('lead').replaceChildren(...parts);
}

/* ---- the matrix ---- */

/* Colour a cell by its share: `deep` over the card's colour; the square root makes one mistake in a hundred visible. */
function shade(cell, part) {
  const strength = Math.sqrt(part);
  cell.style.background = `color-mix(in srgb, var(--deep) ${Math.round(100 * strength)}%, var(--card))`;
  if (strength > 0.55) cell.style.color = 'var(--card)';
}

function table() {
  const classes = [...Array(data.classes).keys()];
  const head = element('tr', {}, element('th', {}, 'label'), ...classes.map((k) => element('th', { scope: 'col' }, nameOf(k))), element('th', {}, 'recognised'));
  const rows = classes.filter((label) => rowSum.has(label)).map((label) => element('tr', {}, element('th', { scope: 'row' }, nameOf(label)),
    ...classes.map((taken) => {
      const n = count(label, taken), own = label === taken;
      const cell = element('td', { class: n === 0 ? 'none' : own ? 'own' : null, title: `${n} of ${rowSum.get(label)} with label ${nameOf(label)} are taken for ${nameOf(taken)}` }, String(n));
      if (n > 0) shade(cell, share(label, taken));
      return cell;
    }), element('td', { class: 'share' }, percent(share(label, label)))));
  $('matrix').replaceChildren(element('thead', {}, head), element('tbody', {}, ...rows));
  $('matrix').hidden = false;
}

/* Draw one pixel per cell. */
function map() {
  const canvas = $('map'), n = data.classes, style = getComputedStyle(document.documentElement);
  const [deep, card] = ['--deep', '--card'].map((name) => channels(style.getPropertyValue(name).trim()));
  canvas.width = canvas.height = n;
  const context = canvas.getContext('2d'), image = context.createImageData(n, n);
  for (let i = 0; i < n * n; i++) {
    const strength = Math.sqrt(share(Math.floor(i / n), i % n));
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = Math.round(card[c] + strength * (deep[c] - card[c]));
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  canvas.hidden = false;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const [taken, label] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((x) => clamp(Math.floor(x * n), 0, n - 1));
    showTip(`label ${nameOf(label)}, taken for ${nameOf(taken)}: ${several(count(label, taken), 'sample')} of ${rowSum.get(label) ?? 0}`, event.clientX, event.clientY);
  };
  canvas.addEventListener('pointermove', at);
  canvas.addEventListener('pointerleave', () => { $('tip').hidden = true; });
  $('map-say').textContent = `${n} classes: point at a cell for its numbers.`;
}

function mistakes() {
  const list = data.confusion.filter(([label, taken]) => label !== taken).sort((a, b) => b[2] - a[2]).slice(0, MISTAKES);
  $('pairs').hidden = list.length === 0;
  $('mistakes').replaceChildren(element('thead', {}, element('tr', {}, ...['label', 'taken for', 'samples', 'of the label'].map((t) => element('th', {}, t)))),
    element('tbody', {}, ...list.map(([label, taken, n]) => element('tr', {}, ...[nameOf(label), nameOf(taken), grouped(n), percent(share(label, taken))].map((t) => element('td', {}, String(t)))))));
}

/* ---- pictures ---- */

function draw(canvas, picture) {
  const { h, w, c } = picture, bytes = Uint8Array.from(atob(picture.bytes), (x) => x.charCodeAt(0));
  canvas.width = w;
  canvas.height = h;
  const context = canvas.getContext('2d'), image = context.createImageData(w, h);
  for (let i = 0; i < h * w; i++) {
    for (let k = 0; k < 3; k++) image.data[4 * i + k] = bytes[(c === 3 ? k : 0) * h * w + i];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function worst() {
  $('worst').hidden = data.worst.length === 0;
  $('pictures').replaceChildren(...data.worst.map((w) => {
    const canvas = w.picture ? element('canvas', { role: 'img', 'aria-label': `sample ${w.sample}` }) : null;
    if (canvas) draw(canvas, w.picture);
    const sure = w.sure === null ? '' : `, ${percent(w.sure, 0)} sure`;
    return element('figure', {}, canvas, element('figcaption', {}, element('b', {}, `label ${nameOf(w.label)}`), element('br'),
      w.taken === w.label ? 'recognised' : element('span', { class: 'taken' }, `taken for ${nameOf(w.taken)}`), sure, element('br'),
      `loss ${w.loss === null ? 'infinite' : w.loss.toPrecision(3)}; sample ${grouped(w.sample)}`));
  }));
}

lead();
data.classes <= TABLE_CLASSES ? table() : map();
mistakes();
worst();
$('command').textContent = data.command.join(' ');
$('version').textContent = `Made by gradsum ${data.version}. This page needs no network.`;
