// A step as a picture, row by row, and where the time of all steps goes. The picture comes drawn.
function timeline(view) {
  if (!view || !view.step) return [];
  const drawn = element("div", {class: "scroll"});
  drawn.innerHTML = view.step.picture;
  const keys = view.step.colors.map(({name, color}) => element("span", {},
    element("i", {class: "swatch", style: `--color: ${color}`}), name));
  const picture = element("div", {class: "card steps"},
    element("div", {class: "head"},
      element("p", {class: "lead-in", style: "margin: 0"},
        `Step ${grouped(view.step.number)}, which took the median time. A box tells more under the pointer; ` +
        "timeline.json.gz in the run folder has all steps, for ui.perfetto.dev."),
      element("span", {class: "keys"}, ...keys)), drawn);
  return section("A step of every worker", picture, ...timeOfSteps(view.shares || []));
}

// Milliseconds of a mean step, by what the thread that trains was doing.
function timeOfSteps(shares) {
  const rows = shares.filter((s) => s.steps > 0);
  if (!rows.length) return [];
  const kinds = [...new Set(rows.flatMap((s) => Object.keys(s.seconds)))].filter((kind) => kind !== "other");
  const ms = (s, seconds) => known(seconds) ? fixed(1000 * seconds / s.steps, 2) : "–";
  const heads = ["Mean step, ms", "steps", "all", ...kinds, "other", "exchange under way"];
  return [element("div", {class: "card scroll"}, figures(heads, rows.map((s) => [
    s.name, grouped(s.steps), ms(s, s.step_s), ...kinds.map((kind) => ms(s, s.seconds[kind])),
    ms(s, s.seconds.other), ms(s, s.exchange_s)])))];
}
