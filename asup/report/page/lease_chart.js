// The controller's choices over the run: a strip with what was chosen, and below it how a batch is shared out, a band
// for each worker. A band's height is the part of a batch that the worker leases; its shade is how slow it is.
const kStrip = 12;     // pixels, of the strip,
const kBelow = 8;      // and between it and the bands
const kShades = 8;     // a path each
const kAlike = 1.15;   // times the fastest one's time: the first shade up to here,
const kSlowest = 4;    // and the last from here on
const kLabel = {width: 46, height: 14};

// {worker, share, length, seconds, slowness} of each worker that a choice was made for, from the first rank on.
function leasesOf(choice) {
  const {workers = [], lengths = [], lease_seconds: times = []} = choice;
  const whole = lengths.reduce((a, b) => a + b, 0), fastest = Math.min(...times);
  if (!workers.length || lengths.length !== workers.length || !(whole > 0)) return [];
  return workers.map((worker, i) => ({
    worker, share: lengths[i] / whole, length: lengths[i], seconds: times[i],
    slowness: known(times[i]) && fastest > 0 ? times[i] / fastest : 1,
  })).sort((a, b) => a.worker - b.worker);
}

const shadeOf = (slowness) => Math.round((kShades - 1) *
  Math.min(1, Math.max(0, Math.log(slowness / kAlike) / Math.log(kSlowest / kAlike))));

const colorOfShade = (shade) =>
  `color-mix(in srgb, var(--slow) ${Math.round(100 * shade / (kShades - 1))}%, var(--fast))`;

// Of the names in their order; those beyond the page's eight colors are paler.
const colorOfName = (i) => i < 8 ? `var(--c${i})` : `color-mix(in srgb, var(--c${i % 8}) 45%, var(--card))`;

// Who is new or has left since the choice before, in words.
function comings(before, after, leaser) {
  if (!before || !before.leases.length || !after.leases.length) return "";
  const ranks = (one) => one.leases.map((lease) => lease.worker);
  const missing = (from, other) => ranks(from).filter((rank) => !ranks(other).includes(rank)).join(", ");
  const left = missing(before, after), come = missing(after, before);
  return [left && `left since the choice before: ${leaser} ${left}`,
          come && `new since the choice before: ${leaser} ${come}`].filter(Boolean).join("; ");
}

class LeaseChart extends Chart {
  // `leaser`: what one who leases is called.
  constructor(choices, last, leaser) {
    super("What was chosen, and who leases what part of a batch", {name: "part of a batch, %"});
    this.leaser = leaser;
    this.most = Math.max(last, 1);
    this.along = xAxis("step", this.most);
    this.choices = choices.map((choice) => ({choice, at: choice.step, leases: leasesOf(choice)}));
    const names = [...new Set(choices.map(nameOfChoice))];
    this.colorOf = (choice) => colorOfName(names.indexOf(nameOfChoice(choice)));
    const key = (color, name) => element("span", {},
      element("i", {class: "swatch", style: `--color: ${color}`}), name);
    this.keys.append(...names.map((name, i) => key(colorOfName(i), name)),
      element("span", {}, "bands: the fastest", element("i", {class: "swatch shades"}),
              `${kSlowest} times as slow`));
    const most = Math.max(...this.choices.map((one) => one.leases.length));
    this.plot.style.height = `${Math.max(250, 80 + 6 * Math.min(most, 64))}px`;
  }

  draw() {
    const W = this.plot.clientWidth, H = this.plot.clientHeight;
    if (W < 100) return;
    const axis = linearAxis(0, 100, {zero: true, most: 100});
    const top = kMargin.top + kStrip + kBelow;
    this.left = 30 + 7 * "100".length;
    this.X = (x) => this.left + x / this.most * (W - this.left - kMargin.right);
    this.Y = (y) => top + (1 - axis.place(y)) * (H - top - kMargin.bottom);
    const svg = element("svg", {width: W, height: H, role: "img", "aria-label": this.title});
    this.drawAxes(svg, axis, this.along, W, H, this.Y);
    const spans = this.spans();
    this.drawBands(svg, spans);
    this.drawLabels(svg, spans);
    this.drawStrip(svg);
    this.cursor = element("line", {y1: kMargin.top, y2: H - kMargin.bottom, stroke: "var(--ink)", opacity: 0});
    svg.append(this.cursor);
    this.plot.replaceChildren(svg);
  }

  // Where each choice is in force, from pixel to pixel; of those that come within one, the last.
  spans() {
    const spans = [];
    let from = this.X(this.choices[0].at);
    this.choices.forEach((one, i) => {
      const next = this.choices[i + 1], to = this.X(next ? next.at : this.most);
      if (next && to - from < 1) return;
      spans.push({leases: one.leases, from, to});
      from = to;
    });
    return spans;
  }

  // Of each lease, from the first rank at the top: where its band is.
  bandsOf({leases, from, to}) {
    let below = 1;
    return leases.map((lease) => {
      const y = this.Y(100 * below);
      below -= lease.share;
      return {...lease, from, to, y, end: this.Y(100 * Math.max(0, below))};
    });
  }

  drawBands(svg, spans) {
    const paths = Array.from({length: kShades}, () => []);
    for (const band of spans.flatMap((span) => this.bandsOf(span))) {
      const height = (band.end - band.y) - Math.min(1, 0.2 * (band.end - band.y));
      paths[shadeOf(band.slowness)].push(`M${band.from.toFixed(1)} ${band.y.toFixed(2)}H${band.to.toFixed(1)}` +
        `v${height.toFixed(2)}H${band.from.toFixed(1)}Z`);
    }
    paths.forEach((parts, shade) => {
      if (parts.length) svg.append(element("path", {class: "band", d: parts.join(""), fill: colorOfShade(shade)}));
    });
  }

  // Wherever other workers are there: each one's name, where its band stays high enough for longest.
  drawLabels(svg, spans) {
    const rooms = new Map();  // by worker: the room that goes on, and the longest
    let ranks = "";
    const write = () => {
      for (const [worker, {longest}] of rooms) {
        if (longest.to - longest.from < kLabel.width) continue;
        svg.append(element("text", {class: "inside", x: longest.from + 6, y: (longest.y + longest.end) / 2 + 4},
                           `${this.leaser} ${worker}`));
      }
      rooms.clear();
    };
    for (const span of spans) {
      const now = span.leases.map((lease) => lease.worker).join();
      if (now !== ranks) write();
      ranks = now;
      for (const {worker, ...band} of this.bandsOf(span)) {
        const {room, longest} = rooms.get(worker) || {room: band, longest: {from: 0, to: 0}};
        const common = {from: room.from, to: band.to, y: Math.max(room.y, band.y), end: Math.min(room.end, band.end)};
        const fits = ({y, end}) => end - y >= kLabel.height;
        const next = fits(common) ? common : band;
        const isLonger = fits(next) && next.to - next.from > longest.to - longest.from;
        rooms.set(worker, {room: next, longest: isLonger ? next : longest});
      }
    }
    write();
  }

  // Something else is chosen at a wedge, the same with other figures at a line; where there are too many, not at each.
  drawStrip(svg) {
    const groups = [];
    for (const {choice, at} of this.choices) {
      const last = groups[groups.length - 1], name = nameOfChoice(choice);
      if (last && last.name === name) last.again.push(at);
      else groups.push({name, at, again: [], color: this.colorOf(choice)});
    }
    let drawn = -Infinity;
    const hasRoom = (x) => x - drawn >= 3 && (drawn = x, true);
    groups.forEach(({at, again, color}, i) => {
      const x = this.X(at), end = this.X(i + 1 < groups.length ? groups[i + 1].at : this.most), y = kMargin.top;
      svg.append(element("rect", {class: "chosen", x, y, height: kStrip, width: Math.max(1, end - x), fill: color}));
      if (hasRoom(x))
        svg.append(element("path", {class: "decision", d: `M${x.toFixed(1)} ${y}l-4 -8h8Z`, fill: color}));
      const lines = again.map(this.X).filter(hasRoom);
      if (lines.length)
        svg.append(element("path", {class: "decision", stroke: "var(--card)",
                                    d: lines.map((line) => `M${line.toFixed(1)} ${y}v${kStrip}`).join("")}));
    });
  }

  // The choice that is in force where the pointer is, or is made there; and whose band is under it.
  point(event) {
    if (!this.cursor) return;
    const box = this.plot.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let i = this.choices.findLastIndex((one) => this.X(one.at) <= x);
    const next = this.choices[i + 1];
    if (next && (i < 0 || this.X(next.at) - x < Math.min(5, x - this.X(this.choices[i].at)))) ++i;
    const found = this.choices[i];
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.X(found.at));
    this.cursor.setAttribute("opacity", 0.5);
    const band = this.bandsOf(found).find((one) => one.y <= y && y < one.end);
    this.tell(event, [...wordsOfChoice(found.choice), comings(this.choices[i - 1], found, this.leaser),
                      band && "\n" + wordsOfLease(band, this.leaser)].filter(Boolean).join("\n"));
  }
}
