// Elements, and numbers as people read them.
const at = (id) => document.getElementById(id);
const kSvg = new Set(["svg", "path", "line", "circle", "text", "g", "rect"]);

function element(tag, attributes = {}, ...children) {
  const node = kSvg.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag)
                             : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null && child !== false && child !== undefined));
  return node;
}

const known = (x) => typeof x === "number" && Number.isFinite(x);
const grouped = (x) => Math.round(x).toLocaleString("en");
const fixed = (x, digits) =>
  x.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
const percent = (x, digits = 1) => fixed(100 * x, digits) + "\u00a0%";
const plural = (n, noun) => `${grouped(n)} ${noun}${n === 1 ? "" : "s"}`;
const short = (x) => x === 0 ? "0" : Math.abs(x) >= 1000 ? grouped(x) : String(+x.toPrecision(3));
const loss = (x) => Math.abs(x) >= 1e6 ? x.toExponential(2) : x.toFixed(4);
const seconds = (s) => s < 100 ? `${s.toFixed(1)} s` : time(s);

function time(s) {
  s = Math.round(s);
  const two = (n) => String(n).padStart(2, "0");
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return h ? `${grouped(h)}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}

function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let u = 0;
  while (n >= 999.5 && u + 1 < units.length) { n /= 1000; ++u; }
  return `${u === 0 || n >= 99.95 ? n.toFixed(0) : n.toFixed(1)} ${units[u]}`;
}

// "2026-01-31T23:59:59+0100" as the run's own clock showed it.
function date(text) {
  const found = /^(\d+)-(\d+)-(\d+)T(\d+:\d+)/.exec(text || "");
  if (!found) return "";
  const months = ["January", "February", "March", "April", "May", "June", "July", "August",
                  "September", "October", "November", "December"];
  return `${+found[3]} ${months[found[2] - 1]} ${found[1]}, ${found[4]}`;
}

const kSuperscripts = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const superscript = (n) => String(n).replace("-", "⁻").replace(/\d/g, (d) => kSuperscripts[d]);

const nameOf = (run) => run.folder.split("/").filter(Boolean).pop() || run.folder;
