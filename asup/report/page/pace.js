// Those who lease samples: workers, or, of a pipeline, groups of them that train one model.
const membersOfGroup = (sum) => sum.pipeline || 1;
const nameOfLeaser = (sum) => membersOfGroup(sum) > 1 ? "group" : "rank";

// The servers: who did how much, how late it came, and what the controller chose.
function pace(run, server) {
  const sum = run.summary;
  const lines = [
    `${plural(sum.servers, "server")} at pace ${sum.pace}: ${plural(server.updates, "update")} of ` +
    `${plural(server.samples, "sample")}.`,
    `Gradients were late by ${short(server.mean_staleness_steps)} steps on average, ` +
    `${short(server.worst_staleness_steps)} at most.`,
    server.samples_dropped > 0 && `${plural(server.samples_dropped, "sample")} came too late, or ` +
      "with values that are no numbers, and were left out.",
  ].filter(Boolean).join(" ");
  const rows = server.workers.map((w) => [
    `${nameOfLeaser(sum)} ${w.worker}${w.here ? "" : " (left)"}`, grouped(w.pushes), grouped(w.samples),
    short(w.mean_staleness_steps), short(w.worst_staleness_steps),
    seconds(w.seconds_working), seconds(w.seconds_waiting),
    percent(w.seconds_working / (w.seconds_working + w.seconds_waiting || 1), 0)]);
  const table = element("div", {class: "card scroll"}, element("p", {class: "lead-in"}, lines),
    figures([membersOfGroup(sum) > 1 ? "Group" : "Worker", "Pushes", "Samples", "Late by, mean steps",
             "Late by, most steps", "Working", "Waiting", "At work"], rows));
  const all = server.choices || [];
  return section("The pace", table, ...(all.length ? [...drawnChoices(run, server, all), choices(all)] : []));
}

const nameOfChoice = (choice) => choice.name || choice.bounds || "–";
const cut = (text, most) => text.length > most ? text.slice(0, most).replace(/\s+\S*$/, "") + " …" : text;
const brief = (s) => s < 0.9995 ? `${short(1000 * s)} ms` : `${short(s)} s`;
const costOf = (choice) => choice.sensitivity * (choice.weight ?? 1);

// A choice and the figures behind it, a line each, of those that it has.
function wordsOfChoice(c) {
  return [
    `step ${grouped(c.step)}${known(c.seconds) ? `, after ${seconds(c.seconds)}` : ""}: ${nameOfChoice(c)}`,
    c.name && c.bounds,
    known(c.score) && `score ${fixed(c.score, 3)}` +
      (known(c.score_before) ? `; what was in force before: ${fixed(c.score_before, 3)}` : ""),
    known(c.speed) && `expected: ${percent(c.speed, 0)} of the workers' summed speed` +
      (known(c.staleness) ? `, ${short(c.staleness)} steps late` : ""),
    known(c.sensitivity) && `γ × weight: ${short(c.sensitivity)} × ${short(c.weight ?? 1)} = ${short(costOf(c))}`,
    known(c.exchange_share) && `communication: ${percent(c.exchange_share, 0)} of a step`,
    c.reason && cut(c.reason, 360),
  ].filter(Boolean);
}

function wordsOfLease({worker, share, length, seconds: takes, slowness}, leaser) {
  return `${leaser} ${worker}: ${percent(share)} of a batch, ${fixed(length, 2)} times an even lease` +
    (known(takes) ? `, which takes it ${brief(takes)}, ${fixed(slowness, 1)} times the fastest one's time` : "");
}

// A figure of the choices as a line with steps: it holds until the next choice, the last to the end.
function heldLine(all, last, value) {
  return all.flatMap((choice, i) => {
    const x = choice.step, end = i + 1 < all.length ? all[i + 1].step : last, y = value(choice);
    return x < end || i + 1 === all.length ? [{x, y}, {x: end, y}] : [];  // another took its place at once
  });
}

// Seconds of a step in which nobody ever waits, by the times that a choice was made of.
function shortestStep(choice, workers) {
  const rate = (choice.lease_seconds || []).reduce((sum, s) => sum + 1 / s, 0);
  return rate > 0 ? workers / rate : NaN;
}

// Of each row: the share of the workers' summed speed that it used, by the estimates of that time.
function measuredSpeed({steps, summary: sum}, all) {
  const shortest = all.map((choice) => shortestStep(choice, sum.workers / membersOfGroup(sum)));
  let i = 0, from = sum.first_step || 0;
  return steps.map((row) => {
    let whole = 0;
    for (let at = Math.max(from, all[0].step); at < row.step;) {
      while (i + 1 < all.length && all[i + 1].step <= at) ++i;
      const to = i + 1 < all.length ? Math.min(all[i + 1].step, row.step) : row.step;
      whole += shortest[i] * (to - at);
      at = to;
    }
    const took = row.step - Math.max(from, all[0].step);
    from = row.step;
    return {x: row.step, y: took > 0 ? 100 * (whole / took) * row.samples_per_s / sum.batch : NaN};
  });
}

// How late gradients were between one choice and the next, where choices tell how late all before them were. Of a run
// whose choices do not, its mean.
function measuredLateness(server, all, last) {
  const told = all.filter((c) => known(c.samples) && known(c.mean_staleness_steps));
  if (!told.length) {
    const y = server.mean_staleness_steps;
    return {name: "measured, mean of the run", dashed: true, points: [{x: all[0].step, y}, {x: last, y}]};
  }
  const points = [];
  let before = {step: 0, samples: 0, late: 0};
  for (const {step, samples, mean_staleness_steps: mean} of [...told, {...server, step: last}]) {
    const now = {step, samples, late: samples * mean};
    if (now.step <= before.step || now.samples <= before.samples) continue;
    const y = Math.max(0, now.late - before.late) / (now.samples - before.samples);
    points.push({x: before.step, y}, {x: step, y});
    before = now;
  }
  return {name: "measured", points};
}

// What the controller expected, beside what came of it.
function drawnChoices(run, server, all) {
  const {steps, summary: sum} = run;
  const last = Math.max(sum.step, all[all.length - 1].step);
  const expected = (value) => ({name: "expected", color: "var(--c0)", points: heldLine(all, last, value)});
  const measured = (points) => ({name: "measured", color: "var(--c1)", points});
  const draw = (title, options, ...series) => {
    const chart = new Chart(title, {zero: true, ...options});
    chart.set(series);
    return chart.card;
  };
  const inPercent = {name: "share, %", say: (y) => `${y.toFixed(1)} %`};
  const charts = [
    draw("Speed, of what the workers could do together", inPercent,
         expected((c) => 100 * c.speed), measured(measuredSpeed(run, all))),
    draw("How late a gradient comes", {name: "steps"}, expected((c) => c.staleness),
         {color: "var(--c1)", ...measuredLateness(server, all, last)}),
    draw("What a step of lateness costs", {name: "γ × weight"},
         {...expected(costOf), name: ""}),
    ...(all.some((c) => known(c.exchange_share)) ? [
      draw("Communication, as choices saw it", inPercent, {...expected((c) => 100 * c.exchange_share), name: "at a choice"},
           measured(curve(steps, "comm_share", "step", 100)))] : []),
  ];
  return [new LeaseChart(all, last, nameOfLeaser(sum)).card,
          element("section", {class: "grid two", style: "margin: 16px 0"}, ...charts)];
}

function choices(all) {
  const most = 60;  // of many, those by which something changed
  const changes = all.length <= most ? all
    : all.filter((c, i) => i === 0 || nameOfChoice(c) !== nameOfChoice(all[i - 1])).slice(-most);
  const columns = [
    ["Step", (c) => grouped(c.step)],
    ["After", (c) => known(c.seconds) && seconds(c.seconds)],
    ["Choice", nameOfChoice],
    ["Speed", (c) => known(c.speed) && percent(c.speed, 0)],
    ["Late", (c) => known(c.staleness) && short(c.staleness)],
    ["γ × weight", (c) => known(c.sensitivity) && short(costOf(c))],
    ["Communication", (c) => known(c.exchange_share) && percent(c.exchange_share, 0)],
    ["Score before", (c) => known(c.score_before) && fixed(c.score_before, 3)],
    ["Score", (c) => known(c.score) && fixed(c.score, 3)],
    ["Why", (c) => c.reason && element("span", {title: c.reason}, cut(c.reason, 240))],
  ].map(([name, value]) => [name, changes.map((c) => value(c) || "–")])
   .filter(([, cells]) => cells.some((cell) => cell !== "–"));
  const heads = columns.map(([name]) => name);
  const note = changes.length < all.length
    ? ` The last ${changes.length} changes of ${plural(all.length, "choice")}; server.json has all.` : "";
  return element("div", {class: "card scroll"},
    element("p", {class: "lead-in"}, "What the controller chose, and what it expected of it: the " +
      "workers' speed that is used, and how late a gradient comes, in steps." + note),
    figures(heads, changes.map((_, i) => columns.map(([, cells]) => cells[i])),
            ["Choice", "Why"].map((name) => heads.indexOf(name))));
}
