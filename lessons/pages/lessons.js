// For each page: a box on its top finds the sections of the course with all its words. texts.js
// has them, and is loaded when it is first used. Moving pictures say how high they are.
const up = document.currentScript.dataset.up, most = 12;
const make = (tag, fields = {}, ...children) => {
  const e = Object.assign(document.createElement(tag), fields);
  e.append(...children);
  return e;
};
const box = make("input", { type: "search", placeholder: "Search the lessons", ariaLabel: "Search the lessons" });
const list = make("ul", { className: "found", hidden: true });

// A word of the text begins with what is looked for.
const pattern = (w, flags) => new RegExp(`(?<!\\w)(${w.replace(/\W/g, "\\$&")})`, flags);

// The text around the first of the words, with the words marked.
function around(text, words) {
  const at = Math.max(0, text.search(pattern(words[0], "i")) - 50), part = text.slice(at, at + 170);
  const any = new RegExp(words.map((w) => pattern(w).source).join("|"), "gi");
  const spans = [];
  let from = 0;
  for (const m of part.matchAll(any)) {
    spans.push(part.slice(from, m.index), make("mark", {}, m[0]));
    from = m.index + m[0].length;
  }
  return make("span", {}, ...spans, part.slice(from));
}

function find() {
  const words = box.value.toLowerCase().split(/\s+/).filter((w) => w);
  list.hidden = words.join("").length < 2;
  if (list.hidden || !window.sections) return;
  // A word in a heading counts as much as ten in the text.
  const count = (s, w) => s.all.split(pattern(w, "i")).length - 1 + (pattern(w, "i").test(s.head) ? 20 : 0);
  const found = window.sections.map((s) => ({ ...s, score: Math.min(...words.map((w) => count(s, w))) }))
    .filter((s) => s.score > 0).sort((a, b) => b.score - a.score);
  list.replaceChildren(...found.slice(0, most).map((s) => make("li", {},
    make("a", { href: up + s.address }, s.title === s.head ? s.head : `${s.title} · ${s.head}`), around(s.body, words))));
  if (found.length === 0) list.append(make("li", {}, "Nothing found"));
  if (found.length > most) list.append(make("li", {}, `${found.length} sections: more words find fewer`));
}

function load() {
  document.head.append(make("script", { src: `${up}texts.js`, onload() {
    window.sections = texts.map(([address, title, head, ...body]) =>
      ({ address, title, head, body: body.join(" ").replace(/\s+/g, " "), all: [title, head, ...body].join(" ") }));
    find();
  } }));
}

box.addEventListener("focus", load, { once: true });
box.addEventListener("input", find);
document.querySelector("nav.top").append(make("search", {}, box, list));
addEventListener("keydown", (e) => {
  if (e.key === "Escape") list.hidden = true;
  if (e.key === "/" && document.activeElement !== box) { box.focus(); e.preventDefault(); }
});
addEventListener("pointerdown", (e) => { if (!e.target.closest("search")) list.hidden = true; });
addEventListener("message", (e) => {
  const frame = [...document.querySelectorAll("iframe")].find((f) => f.contentWindow === e.source);
  if (frame && e.data.height > 0) frame.style.height = `${e.data.height}px`;
});
