// Arrow keys, space, Page Up and Page Down turn the pages; Home and End; F fills the screen.
const pages = [...document.querySelectorAll("article")];
const distance = (page) => Math.abs(page.getBoundingClientRect().top);
const current = () => pages.reduce((best, page, i) => distance(page) < distance(pages[best]) ? i : best, 0);
const show = (i) => pages[Math.max(0, Math.min(pages.length - 1, i))].scrollIntoView();
const turn = {
  ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, Enter: 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1, Backspace: -1,
};
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  if (e.key === "f") document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen();
  else if (e.key === "Home") show(0);
  else if (e.key === "End") show(pages.length - 1);
  else if (turn[e.key]) show(current() + (e.shiftKey ? -turn[e.key] : turn[e.key]));
  else return;
  e.preventDefault();
});
// The same slide after the window has changed its size.
let at = 0;
addEventListener("scrollend", () => { at = current(); });
addEventListener("resize", () => show(at));
