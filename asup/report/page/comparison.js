// Several runs on one page: curves over each other, what they came to, and what set them apart.
const colorOf = (i) => `var(--c${i % 8})`;

// The settings in a config.toml as asup writes it: a key and a value on each line.
function settingsOf(run) {
  const settings = {};
  for (const line of run.config.split("\n")) {
    const found = /^([\w-]+) = ("(?:[^"\\]|\\.)*"|[^#\s]+)/.exec(line);
    if (found) settings[found[1]] = found[2].replace(/^"(.*)"$/, "$1");
  }
  return {...settings, hosts: countedHosts(run.summary), versions: run.summary.versions || ""};
}

// [setting, value of each run] for those that are not the same in all.
function differences(runs) {
  const all = runs.map(settingsOf);
  const names = [...new Set(all.flatMap(Object.keys))].filter((name) => name !== "format");
  return names.map((name) => [name, ...all.map((s) => s[name] ?? "–")])
              .filter(([, ...values]) => values.some((v) => v !== values[0]));
}

// Of one result in all runs, with the best in bold; `better`: +1 the larger, -1 the smaller, 0 none.
function column(runs, value, say, better) {
  const values = runs.map(value), there = values.filter(known);
  const best = !better || there.length < 2 ? NaN : (better > 0 ? Math.max : Math.min)(...there);
  return values.map((v) => {
    if (!known(v)) return "–";
    if (v !== best || there.every((other) => other === best)) return say(v);
    const bold = element("span", {}, say(v));
    bold.dataset.best = "1";
    return bold;
  });
}

function resultsTable(runs) {
  const ended = (key) => (run) => run.status === "done" ? run.summary[key] : NaN;
  const columns = [
    ["Test accuracy", (r) => r.summary.test_accuracy, (v) => percent(v, 2), 1],
    ["Test top-5", (r) => r.summary.test_top5 ?? NaN, (v) => percent(v, 2), 1],
    ["Validation accuracy", (r) => r.summary.validation_accuracy ?? NaN, (v) => percent(v, 2), 1],
    ["Best test accuracy", (r) => Math.max(...r.tests.map((t) => t.test_accuracy).filter(known)), (v) => percent(v, 2), 1],
    ["Test perplexity", (r) => r.summary.test_perplexity, short, -1],
    ["Bits per byte", (r) => r.summary.test_bits_per_byte, (v) => fixed(v, 3), -1],
    ["Training loss", (r) => r.summary.final_loss, loss, -1],
    ["Steps", (r) => r.summary.step, grouped, 0],
    ["Time", ended("seconds"), time, -1],
    ["Samples/s, all workers", (r) => r.summary.tokens_per_sample ? NaN : r.summary.samples_per_s, grouped, 1],
    ["Tokens/s, all workers", (r) => r.summary.samples_per_s * r.summary.tokens_per_sample, grouped, 1],
    ["In communication", (r) => r.summary.workers > 1 ? r.summary.comm_share : NaN, (v) => percent(v), -1],
    ["Sent, all workers", (r) => r.summary.workers > 1 ? r.summary.bytes_sent : NaN, bytes, -1],
    ["Peak memory, all workers", (r) => r.summary.peak_memory_bytes, bytes, -1],
    ["Peak memory of GPUs, all workers", (r) => r.summary.peak_device_memory_bytes ?? NaN, bytes, -1],
  ].map(([name, ...how]) => [name, column(runs, ...how)])
   .filter(([, cells]) => cells.some((cell) => cell !== "–"));
  const rows = runs.map((run, i) => [
    element("span", {class: "name"}, element("i", {class: "swatch", style: `--color: ${colorOf(i)}`}), run.label),
    statusPill(run, false), ...columns.map(([, cells]) => cells[i])]);
  return figures(["Run", "", ...columns.map(([name]) => name)], rows);
}

class ComparisonPage {
  constructor() {
    this.x = "step";
    this.charts = Object.fromEntries(["loss", "test_loss", "perplexity", "accuracy", "speed", "tokens", "comm", "distance", "noise", "rate"].map(
      (key) => [key, key === "test_loss" ? new Chart("Test loss", {...kCharts.loss[1], wide: false, cap: true, smooth: false})
                     : key === "loss" ? new Chart("Training loss", {...kCharts.loss[1], wide: false, cap: true})
                     : new Chart(...kCharts[key])]));
  }

  show(runs) {
    this.runs = runs.map((run) => ({...run, label: this.labelOf(run, runs)}));
    document.title = `${this.runs.map((run) => run.label).join(", ")} · asup`;
    const pick = choice([["step", "by step"], ["time", "by time"]], this.x, (x) => {
      this.x = x;
      this.drawCharts();
    });
    const models = [...new Set(runs.map((r) => `${r.summary.model} on ${r.summary.data}`))];
    at("main").replaceChildren(
      brand("comparison of runs"),
      element("div", {class: "title"}, element("h1", {}, plural(runs.length, "run"))),
      element("p", {class: "subtitle"}, models.join(" · ")),
      ...section("What they came to", element("div", {class: "card scroll"}, resultsTable(this.runs))),
      element("div", {class: "section"}, element("h2", {}, "How they went"), pick),
      element("section", {class: "grid two"}, ...Object.values(this.charts).map((c) => c.card)),
      ...section("Settings that differ", this.settings()),
      ...section("The runs", this.commands()));
    this.drawCharts();
  }

  // The folder's name, and all of its path where two have the same.
  labelOf(run, runs) {
    return runs.filter((other) => nameOf(other) === nameOf(run)).length > 1 ? run.folder : nameOf(run);
  }

  drawCharts() {
    const differs = changes(this.runs.flatMap((run) => run.steps), "lr");
    const pointsOf = {
      loss: (r) => curve(r.steps, "loss", this.x),
      test_loss: (r) => curve(r.tests, "test_loss", this.x),
      accuracy: (r) => curve(r.tests, "test_accuracy", this.x, 100),
      perplexity: (r) => curve(r.tests, "test_perplexity", this.x),
      speed: (r) => r.summary.tokens_per_sample ? [] : curve(r.steps, "samples_per_s", this.x),
      tokens: (r) => r.summary.tokens_per_sample ? curve(r.steps, "samples_per_s", this.x, r.summary.tokens_per_sample) : [],
      comm: (r) => r.summary.workers > 1 ? curve(r.steps, "comm_share", this.x, 100) : [],
      distance: (r) => curve(r.steps, "consensus_distance", this.x),
      noise: (r) => curve(r.steps, "noise_scale", this.x),
      rate: (r) => differs ? curve(r.steps, "lr", this.x) : [],
    };
    for (const [key, chart] of Object.entries(this.charts)) {
      chart.set(this.runs.map((run, i) => ({
        name: run.label, color: colorOf(i), points: pointsOf[key](run), dashed: i >= 8,
        dots: ["accuracy", "perplexity", "test_loss"].includes(key)})), {x: this.x});
    }
  }

  settings() {
    const rows = differences(this.runs);
    if (!rows.length) return element("div", {class: "card soft"}, "All settings are the same.");
    const words = this.runs.map((_, i) => i + 1);
    return element("div", {class: "card scroll"},
                   figures(["Setting", ...this.runs.map((run) => run.label)], rows, words));
  }

  commands() {
    return element("div", {class: "card"}, facts(this.runs.map((run) =>
      [run.label, [date(run.summary.began), run.summary.command].filter(Boolean).join("\n") || run.folder])));
  }
}
