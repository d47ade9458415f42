// The page of one run: made once, brought up to date as often as its figures change.
const curve = (rows, key, x, factor = 1) => rows.map((r) => (
  {x: x === "step" ? r.step : r.seconds, y: known(r[key]) ? r[key] * factor : NaN}));

const kCharts = {
  loss: ["Loss", {name: "cross-entropy, nats", wide: true, smooth: true, say: loss}],
  perplexity: ["Test perplexity", {name: "e to the loss of a token", wide: true, say: (y) => short(y)}],
  accuracy: ["Test accuracy", {name: "accuracy, %", most: 100, say: (y) => `${y.toFixed(2)} %`}],
  tokens: ["Speed, all workers", {name: "tokens / second", zero: true, say: (y) => `${grouped(y)} tokens/s`}],
  speed: ["Speed, all workers", {name: "samples / second", zero: true, say: (y) => `${grouped(y)} samples/s`}],
  comm: ["Time in communication, mean of the workers",
         {name: "share of the step, %", zero: true, say: (y) => `${y.toFixed(1)} %`}],
  distance: ["How far models are apart", {name: "distance / size of the weights", zero: true}],
  noise: ["Gradient noise scale", {name: "samples", zero: true, say: (y) => `${grouped(y)} samples`}],
  parts: ["A batch, by worker", {name: "samples", zero: true, say: grouped}],
  rate: ["Learning rate", {name: "learning rate", zero: true}],
};

// The series of each chart; those of which a run knows nothing are empty.
function seriesOf(run, x) {
  const {steps, tests, summary: sum} = run, many = sum.workers > 1;
  const one = (points, rest = {}) => [{name: "", color: "var(--c0)", points, ...rest}];
  const dealt = steps.filter((r) => r.parts);
  return {
    loss: [
      {name: "training", color: "var(--c0)", points: curve(steps, "loss", x)},
      {name: "test", color: "var(--c1)", points: curve(tests, "test_loss", x), dots: true},
      {name: "validation", color: "var(--c2)", points: curve(tests, "validation_loss", x), dots: true}],
    accuracy: [
      {name: sum.validation_samples ? "test" : "", color: "var(--c1)", points: curve(tests, "test_accuracy", x, 100), dots: true},
      {name: "validation", color: "var(--c2)", points: curve(tests, "validation_accuracy", x, 100), dots: true}],
    perplexity: one(curve(tests, "test_perplexity", x), {color: "var(--c1)", dots: true}),
    tokens: sum.tokens_per_sample ? one(curve(steps, "samples_per_s", x, sum.tokens_per_sample)) : [],
    speed: sum.tokens_per_sample ? [] : one(curve(steps, "samples_per_s", x)),
    comm: many ? one(curve(steps, "comm_share", x, 100)) : [],
    distance: one(curve(steps, "consensus_distance", x)),
    noise: one(curve(steps, "noise_scale", x)),
    parts: !dealt.length ? [] : dealt[0].parts.map((_, i) => ({
      name: `rank ${i}`, color: `var(--c${i % 8})`,
      points: dealt.map((r) => ({x: x === "step" ? r.step : r.seconds, y: r.parts[i]}))})),
    rate: changes(steps, "lr") ? one(curve(steps, "lr", x)) : [],
  };
}

const changes = (rows, key) => rows.some((r) => r[key] !== rows[0][key]);

function tilesOf({summary: sum, status}) {
  const of = sum.workers > 1 ? "all workers" : "";
  const ended = status === "done";
  const tokens = sum.tokens_per_sample || 0;
  return [
    known(sum.test_perplexity) && {
      name: "Test perplexity", lead: true, value: short(sum.test_perplexity),
      of: known(sum.test_bits_per_byte) ? `${fixed(sum.test_bits_per_byte, 3)} bits per byte` : ""},
    known(sum.test_accuracy) && !tokens && {
      name: "Test accuracy", lead: true,
      of: known(sum.test_top5) ? `top-5 ${percent(sum.test_top5, 2)}` : `${grouped(sum.test_samples)} test samples`,
      value: fixed(100 * sum.test_accuracy, 2), unit: "%"},
    known(sum.validation_accuracy) && {
      name: "Validation accuracy", of: `${grouped(sum.validation_samples)} samples set aside`,
      value: fixed(100 * sum.validation_accuracy, 2), unit: "%"},
    known(sum.final_loss) && {name: ended ? "Final training loss" : "Training loss", of,
                              value: loss(sum.final_loss)},
    known(sum.samples_per_s) && (tokens
      ? {name: "Tokens a second", of, value: grouped(sum.samples_per_s * tokens)}
      : {name: "Samples a second", of, value: grouped(sum.samples_per_s)}),
    known(sum.seconds) && sum.seconds > 0 && {
      name: "Time", of: "tests included", value: sum.seconds < 60 ? fixed(sum.seconds, 1) : time(sum.seconds),
      unit: sum.seconds < 60 ? "s" : ""},
    sum.workers > 1 && sum.samples > 0 && {
      name: "Time communicating", of: "mean of the workers",
      value: fixed(100 * sum.comm_share, 1), unit: "%"},
    known(sum.peak_memory_bytes) && {name: "Peak memory", of,
                                     value: bytes(sum.peak_memory_bytes).split(" ")[0],
                                     unit: bytes(sum.peak_memory_bytes).split(" ")[1]},
  ].filter(Boolean);
}

class RunPage {
  constructor(live) {
    this.live = live;
    this.x = "step";
    this.head = element("header");
    this.tiles = element("section", {class: "grid tiles"});
    this.charts = Object.fromEntries(Object.entries(kCharts).map(([key, [title, options]]) =>
      [key, new Chart(title, options)]));
    const pick = choice([["step", "by step"], ["time", "by time"]], this.x, (x) => {
      this.x = x;
      this.drawCharts();
    });
    this.rest = element("div");
    at("main").replaceChildren(this.head, this.tiles,
      element("div", {class: "section"}, element("h2", {}, "How it went"), pick),
      element("section", {class: "grid two"}, ...Object.values(this.charts).map((c) => c.card)),
      this.rest);
  }

  // All there is to know of the run.
  show(run) {
    this.run = run;
    this.brief();
    const {summary: sum, evaluation} = run;
    this.rest.replaceChildren(...[
      ...workerTimes(run.workers || []),
      ...timeline(run.timeline),
      ...(sum.server ? pace(run, sum.server) : []),
      ...writing(run.generated),
      ...(evaluation && evaluation.classes ? [
        ...gallery("What the model sees", "The first test images: what the model says, and how sure it is.",
                   evaluation.first, evaluation.classes),
        ...gallery("Its surest mistakes", "Test images of which the model was most certain, and wrong.",
                   evaluation.mistakes, evaluation.classes),
        ...confusion(evaluation)] : []),
      ...this.about()].filter(Boolean));
  }

  // The server does not answer: what is shown may be old.
  lose() {
    this.live = false;
    if (this.run) this.showHead();
  }

  // What every row changes.
  brief() {
    this.showHead();
    this.tiles.replaceChildren(...tilesOf(this.run).map(tile));
    this.drawCharts();
  }

  drawCharts() {
    const sum = this.run.summary, series = seriesOf(this.run, this.x);
    const mark = sum.switched_after && this.x === "step" ? {x: sum.switched_after, name: sum.then} : null;
    for (const [key, chart] of Object.entries(this.charts)) chart.set(series[key], {x: this.x, mark});
  }

  showHead() {
    const run = this.run, sum = run.summary;
    document.title = `${nameOf(run)} · asup`;
    const words = [
      `${sum.model} on ${sum.data}`, plural(sum.workers, "worker"),
      sum.workers > 1 && `${waysOf(sum)} over ${sum.links}`,
      `batch ${grouped(sum.batch)}`, sum.optimizer].filter(Boolean);
    this.head.replaceChildren(...[
      brand("report of a run", date(sum.began), countedHosts(sum)),
      element("div", {class: "title"}, element("h1", {}, nameOf(run)), statusPill(run, this.live)),
      element("p", {class: "subtitle"}, words.join(" · ")),
      this.progress(), this.notice()].filter(Boolean));
  }

  progress() {
    const {status, summary: sum} = this.run;
    if (status === "done") return null;
    const share = Math.min(1, sum.step / sum.steps);
    const left = status === "running" && this.live && this.perStep() > 0
      ? `about ${time((sum.steps - sum.step) * this.perStep())} to go` : "";
    return element("div", {class: `progress ${status}`},
      element("div", {class: "bar"}, element("i", {style: `width: ${(100 * share).toFixed(2)}%`})),
      element("p", {class: "soft"},
        element("span", {}, `step ${grouped(sum.step)} of ${grouped(sum.steps)}`), element("span", {}, left)));
  }

  // Seconds, tests included, by the last rows.
  perStep() {
    const rows = this.run.steps, last = rows[rows.length - 1], before = rows[Math.max(0, rows.length - 50)];
    return rows.length > 1 ? (last.seconds - before.seconds) / (last.step - before.step) : 0;
  }

  notice() {
    const {status, failure, summary: sum} = this.run;
    const goOn = sum.checkpoint ? ` Continue with: asup train --resume ${this.run.folder}` : "";
    const words = {
      failed: `Failed after step ${grouped(sum.step)}: ${failure}`,
      stopped: `Stopped after step ${grouped(sum.step)} of ${grouped(sum.steps)}.${goOn}`,
      killed: "This run has no end: it was killed, or it runs where its lock is not seen." + goOn,
      running: this.live ? "" : "This run was still going at this step; what came after is not shown.",
    }[status];
    return words ? element("div", {class: `notice ${status}`}, words) : null;
  }

  about() {
    const run = this.run, sum = run.summary;
    const all = sum.workers > 1 ? ", all workers" : "";
    return section("The run",
      sum.command && element("div", {class: "card", style: "margin-bottom: 16px"},
        element("pre", {class: "command"}, sum.command)),
      element("section", {class: "grid two"},
        element("div", {class: "card"}, facts([
          ["Model", sum.model], ["Parameters", grouped(sum.parameters)], ["Data", sum.data],
          ["Training samples", grouped(sum.train_samples)], ["Test samples", grouped(sum.test_samples)],
          sum.validation_samples > 0 && ["Validation samples", grouped(sum.validation_samples)],
          ["Steps", `${grouped(sum.step)} of ${grouped(sum.steps)}`],
          sum.ended_early && sum.best_test && ["Ended early", `no test was better for ${plural(sum.best_test.tests_since, "test")}`],
          sum.best_test && ["Best test between", `after step ${grouped(sum.best_test.step)}`],
          sum.skipped_steps > 0 && ["Skipped steps, whose gradients were not finite", grouped(sum.skipped_steps)],
          ["Steps of an epoch", grouped(sum.steps_per_epoch)],
          ["Batch" + all, grouped(sum.batch)],
          known(sum.noise_scale) && ["Gradient noise scale", `${grouped(sum.noise_scale)} samples`],
          ["Optimizer", sum.optimizer],
          sum.first_step > 0 && ["Resumed after step", grouped(sum.first_step)],
          ["Run folder", run.folder], ["Last checkpoint", sum.checkpoint]])),
        element("div", {class: "card"}, facts([
          ["Began", date(sum.began)], ["Hosts", (sum.hosts || []).join(", ")], ["Versions", sum.versions],
          ["Workers", grouped(sum.workers)], ["Threads of a worker", sum.threads],
          sum.workers > 1 && ["Kept in step by", waysOf(sum)], sum.workers > 1 && ["Links", sum.links],
          sum.stages && ["Pipeline", sum.stages],
          sum.tensor_groups && ["Tensor parallelism", sum.tensor_groups],
          known(sum.bubble) && ["Bubble, mean of the workers", percent(sum.bubble, 1)],
          sum.servers > 0 && ["Servers", sum.servers], sum.pace && ["Pace", sum.pace],
          ["Convolution path", sum.convolution_path],
          sum.memory_format === "channels-last" && ["Images in memory", sum.memory_format],
          sum.precision && sum.precision !== "fp32" && ["Precision", sum.precision],
          ["Time training", time(sum.train_seconds)],
          sum.workers > 1 && ["Time in communication, mean of the workers", seconds(sum.comm_s)],
          sum.bytes_sent && ["Bytes sent" + all, bytes(sum.bytes_sent)],
          sum.workers > 1 && sum.peak_memory_bytes_max && ["Peak memory, largest worker", bytes(sum.peak_memory_bytes_max)],
          sum.peak_device_memory_bytes && ["Peak memory of GPUs" + all, bytes(sum.peak_device_memory_bytes)],
          ["SHA-256 of the weights", sum.weights_sha256]]))),
      element("details", {class: "card"}, element("summary", {}, "Settings (config.toml)"),
              element("pre", {}, run.config)));
  }
}
