// Line charts that fit their card, in SVG. A series is {name, color, points: [{x, y}], dots, faint}.
const kMargin = {right: 14, top: 12, bottom: 42};  // the left one holds the ticks' texts

// Values that people like, about `count` of them, and the digits that all of them need.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  const values = [];
  for (let i = first; i <= last; ++i) values.push(i * step + 0);  // never -0
  return {values, digits};
}

// The y axis: where values lie between 0 and 1, its ticks with their texts, and what its name adds.
function linearAxis(low, high, {zero, most}) {
  if (zero) low = Math.min(low, 0);
  if (high === low) { const by = Math.abs(high) * 0.1 || 1; high += by; if (!zero) low -= by; }
  const pad = (high - low) * 0.06;
  high = Math.min(high + pad, Math.max(most, high));
  if (!zero) low = low >= 0 ? Math.max(low - pad, 0) : low - pad;
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const exponent = largest < 0.005 || largest >= 1e6 ? Math.floor(Math.log10(largest)) : 0;
  const unit = 10 ** exponent, {values, digits} = ticks(low / unit, high / unit, 5);
  return {
    place: (y) => Math.min(1.03, (y - low) / (high - low)),
    ticks: values.map((v) => ({y: v * unit, text: fixed(v, digits)})),
    suffix: exponent ? ` (×10${superscript(exponent)})` : "",
  };
}

function logarithmicAxis(low, high) {
  const from = Math.floor(Math.log10(low)), to = Math.max(Math.ceil(Math.log10(high)), from + 1);
  const every = Math.ceil((to - from) / 5), ticks = [];
  for (let e = from; e <= to; e += every) ticks.push({y: 10 ** e, text: `10${superscript(e)}`});
  return {place: (y) => (Math.log10(y) - from) / (to - from), ticks, suffix: ""};
}

// A loss that ran away is seen by orders of magnitude only.
function yAxis(series, options) {
  const values = series.flatMap((s) => s.points.map((p) => p.y));
  const low = Math.min(...values);
  let high = Math.max(...values);
  // Beside others, one that ran away leaves the picture.
  if (options.cap) high = Math.min(high, 1.5 * Math.max(...series.map((s) => s.points[0].y)));
  const wide = options.wide && low > 0 && high / low > 200;
  return wide ? logarithmicAxis(low, high) : linearAxis(low, high, options);
}

// What is along the x axis: steps, or time.
function xAxis(kind, most) {
  if (kind === "step") return {unit: 1, name: "step", digitsAtMost: 0, say: (x) => `step ${grouped(x)}`};
  const [unit, name] = most < 180 ? [1, "seconds"] : most < 10800 ? [60, "minutes"] : [3600, "hours"];
  return {unit, name: `time, ${name}`, digitsAtMost: 2, say: (x) => `after ${seconds(x)}`};
}

// Noise stays in sight, faintly; the eye follows the mean of the points around.
function smoothed(series) {
  const all = series.points, wide = Math.floor(all.length / 50);
  if (!wide) return [series];
  const sums = [0];
  for (const p of all) sums.push(sums[sums.length - 1] + p.y);
  const points = all.map((p, i) => {
    const w = Math.min(wide, i, all.length - 1 - i);
    return {x: p.x, y: (sums[i + w + 1] - sums[i - w]) / (2 * w + 1)};
  });
  return [{...series, faint: true}, {...series, points}];
}

function nearest(points, x) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    points[middle].x < x ? low = middle + 1 : high = middle;
  }
  return low > 0 && x - points[low - 1].x < points[low].x - x ? points[low - 1] : points[low];
}

class Chart {
  // `options`: name of the y axis; zero: it begins there; most: it ends there; wide: it may be
  // logarithmic; say: a value in words.
  constructor(title, options) {
    this.options = {zero: false, most: Infinity, wide: false, say: short, ...options};
    this.keys = element("span", {class: "keys"});
    this.plot = element("div", {class: "plot"});
    this.card = element("div", {class: "card"},
      element("div", {class: "head"}, element("h3", {}, title), this.keys), this.plot);
    this.title = title;
    this.series = [];
    new ResizeObserver(() => this.draw()).observe(this.plot);
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.leave());
  }

  set(series, {x = "step", mark = null} = {}) {
    const clean = (s) => ({...s, points: s.points.filter((p) => known(p.x) && known(p.y))});
    this.series = series.map(clean).filter((s) => s.points.length);
    this.x = x;
    this.mark = mark;
    this.card.hidden = !this.series.length;
    this.keys.replaceChildren(...(this.series.length < 2 ? [] : this.series.map((s) =>
      element("span", {}, element("i", {class: "swatch", style: `--color: ${s.color}`}), s.name))));
    this.draw();
  }

  draw() {
    const W = this.plot.clientWidth, H = this.plot.clientHeight;
    if (!this.series.length || W < 100) return;
    const all = this.series.flatMap((s) => s.points);
    this.most = Math.max(...all.map((p) => p.x), 1e-9);
    const axis = yAxis(this.series, this.options), along = xAxis(this.x, this.most);
    this.left = 30 + 7 * Math.max(...axis.ticks.map((tick) => tick.text.length));
    this.X = (x) => this.left + x / this.most * (W - this.left - kMargin.right);
    const Y = (y) => kMargin.top + (1 - axis.place(y)) * (H - kMargin.top - kMargin.bottom);
    const svg = element("svg", {width: W, height: H, role: "img", "aria-label": this.title});
    this.drawAxes(svg, axis, along, W, H, Y);
    this.drawMark(svg, H);
    const drawn = this.options.smooth ? this.series.flatMap(smoothed) : this.series;
    for (const s of drawn) this.drawSeries(svg, s, Y);
    this.cursor = element("line", {y1: kMargin.top, y2: H - kMargin.bottom, stroke: "var(--soft)", opacity: 0});
    svg.append(this.cursor);
    this.along = along;
    this.plot.replaceChildren(svg);
  }

  drawAxes(svg, axis, along, W, H, Y) {
    const bottom = H - kMargin.bottom;
    for (const {y, text} of axis.ticks) {
      svg.append(
        element("line", {x1: this.left, x2: W - kMargin.right, y1: Y(y), y2: Y(y), stroke: "var(--line)"}),
        element("text", {x: this.left - 9, y: Y(y) + 4, "text-anchor": "end"}, text));
    }
    const {values, digits} = ticks(0, this.most / along.unit, W < 420 ? 4 : 6);
    for (const v of values) {
      if (digits > along.digitsAtMost && v !== Math.round(v)) continue;
      svg.append(element("text", {x: this.X(v * along.unit), y: bottom + 17, "text-anchor": "middle"},
                         fixed(v, Math.min(digits, along.digitsAtMost))));
    }
    const middle = (kMargin.top + bottom) / 2;
    svg.append(
      element("text", {class: "axis", x: (this.left + W - kMargin.right) / 2, y: H - 5,
                       "text-anchor": "middle"}, along.name),
      element("text", {class: "axis", "text-anchor": "middle",
                       transform: `translate(4 ${middle}) rotate(-90)`}, this.options.name + axis.suffix));
  }

  drawMark(svg, H) {
    if (!this.mark || !(this.mark.x < this.most)) return;
    const x = this.X(this.mark.x);
    svg.append(element("line", {x1: x, x2: x, y1: kMargin.top, y2: H - kMargin.bottom,
                                stroke: "var(--soft)", "stroke-dasharray": "3 4"}),
               element("text", {x: x + 5, y: kMargin.top + 10}, this.mark.name));
  }

  drawSeries(svg, s, Y) {
    const d = s.points.map((p, i) => `${i ? "L" : "M"}${this.X(p.x).toFixed(1)} ${Y(p.y).toFixed(1)}`);
    svg.append(element("path", {d: d.join(""), fill: "none", stroke: s.color,
      "stroke-width": s.faint ? 1 : 2, opacity: s.faint ? 0.35 : 1,
      "stroke-dasharray": s.dashed && !s.faint ? "5 4" : "none",
      "stroke-linejoin": "round", "stroke-linecap": "round"}));
    const dots = s.points.length === 1 || (s.dots && s.points.length <= 40);
    if (dots) for (const p of s.points) {
      svg.append(element("circle", {cx: this.X(p.x), cy: Y(p.y), r: 3.5, fill: s.color,
                                    stroke: "var(--card)", "stroke-width": 1.5}));
    }
  }

  point(event) {
    if (!this.series.length || !this.cursor) return;
    const left = event.clientX - this.plot.getBoundingClientRect().left;
    const wide = this.plot.clientWidth - this.left - kMargin.right;
    const x = (left - this.left) / wide * this.most;
    const near = this.series.map((s) => ({s, p: nearest(s.points, x)}));
    const first = near[0].p.x;
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.X(first));
    this.cursor.setAttribute("opacity", 0.5);
    this.tell(event, near.map(({s, p}) => (near.length > 1 ? `${s.name}  ` : "") +
      `${this.options.say(p.y)} · ${this.along.say(p.x)}`).join("\n"));
  }

  // A text beside the pointer, where the window has room for it.
  tell(event, text) {
    const tip = at("tip");
    tip.textContent = text;
    const place = (pointer, size, room) =>
      Math.max(0, pointer + size + 28 > room ? pointer - size - 14 : pointer + 14) + "px";
    tip.style.left = place(event.clientX, tip.offsetWidth, innerWidth);
    tip.style.top = place(event.clientY, tip.offsetHeight, innerHeight);
    tip.style.opacity = 1;
  }

  leave() {
    if (this.cursor) this.cursor.setAttribute("opacity", 0);
    at("tip").style.opacity = 0;
  }
}
