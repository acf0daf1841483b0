/* For the scripts of all pages: the page's data, short number texts, and the tooltip with values at the pointer. */
'use strict';

const $ = (id) => document.getElementById(id);
// In a frame of another page, such as a lesson's: only the picture, and what moves it.
const framed = window.self !== window.top;
document.documentElement.classList.toggle('framed', framed);
if (framed) new ResizeObserver(() => window.parent.postMessage({ height: document.body.offsetHeight + 4 }, '*')).observe(document.body);
const data = JSON.parse(document.getElementById('data').textContent);

/* ---- numbers and text ---- */

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const grouped = (n) => Math.round(n).toLocaleString('en-US');
const several = (n, word) => `${grouped(n)} ${word}${n === 1 ? '' : 's'}`;
const escapeText = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/* An element with attributes and children; text is never parsed as HTML. */
function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) if (v !== null && v !== false) e.setAttribute(k, v === true ? '' : v);
  e.append(...children.filter((c) => c !== null));
  return e;
}

/* An SVG element with attributes; it is appended to `parent` if there is one. */
function svg(tag, attributes, parent) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (parent) parent.append(e);
  return e;
}

/* #rrggbb as three numbers. */
const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

function shortBytes(n) {
  const units = ['B', 'kB', 'MB', 'GB'];
  let u = 0;
  while (n >= 1000 && u < 3) { n /= 1000; u++; }
  return `${u === 0 || n >= 100 ? Math.round(n) : n.toPrecision(3)} ${units[u]}`;
}

function shortTime(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  return seconds < 1 ? `${(seconds * 1e3).toPrecision(3)} ms` : `${seconds.toPrecision(3)} s`;
}

/* ---- the tooltip ---- */

/* Show the tooltip at a point of the window; `content` is HTML or a list of elements. */
function showTip(content, x, y) {
  const tip = $('tip');
  if (typeof content === 'string') tip.innerHTML = content;
  else tip.replaceChildren(...content);
  tip.hidden = false;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = `${clamp(x + 16, 8, Math.max(8, window.innerWidth - w - 8))}px`;
  tip.style.top = `${y + 20 + h > window.innerHeight ? Math.max(8, y - h - 14) : y + 20}px`;
}
