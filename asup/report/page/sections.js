// Parts of the page.
function brand(...words) {
  return element("div", {class: "brand soft"}, element("b", {}, "asup"), words.filter(Boolean).join(" · "));
}

function statusPill(run, live) {
  return element("span", {class: `status ${run.status} ${live ? "live" : ""}`},
                 element("i"), live && run.status === "running" ? "running, live" : run.status);
}

function section(title, ...content) {
  return [element("div", {class: "section"}, element("h2", {}, title)), ...content];
}

// One of several, by buttons. `choose` is called with the one that was picked.
function choice(names, chosen, choose) {
  const buttons = names.map(([key, text]) => {
    const button = element("button", {type: "button", "aria-pressed": key === chosen}, text);
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", other === button);
      choose(key);
    });
    return button;
  });
  return element("span", {class: "choice"}, ...buttons);
}

// A tile: a figure, what it is, and whose it is.
function tile({name, value, unit, of, lead}) {
  return element("div", {class: `card tile ${lead ? "lead" : ""}`},
    element("b", {}, value, unit ? element("small", {}, unit) : null),
    element("span", {}, name), of ? element("em", {}, of) : null);
}

function figures(heads, rows, words = []) {
  const cell = (tag) => (value, i) => {
    const inside = value instanceof Node ? value : String(value ?? "–");
    const best = value && value.dataset && value.dataset.best ? "best" : "";
    return element(tag, {class: `${words.includes(i) ? "words" : ""} ${best}`}, inside);
  };
  return element("table", {class: "figures"},
    element("thead", {}, element("tr", {}, ...heads.map(cell("th")))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td"))))));
}

function facts(rows) {
  return element("table", {class: "facts"}, element("tbody", {},
    ...rows.filter((row) => row && row[1] !== undefined && row[1] !== "").map(([name, value]) =>
      element("tr", {}, element("td", {}, name), element("td", {}, String(value))))));
}

// How workers stayed in step: one way, or one and then another.
function waysOf(sum) {
  if (!sum.then) return sum.sync;
  return sum.switched_after ? `${sum.sync}, after step ${grouped(sum.switched_after)} ${sum.then}`
                            : `${sum.sync}; it did not come to ${sum.then}`;
}

function countedHosts(sum) {
  const hosts = sum.hosts || [];
  return hosts.length > 3 ? plural(hosts.length, "host") : hosts.join(", ");
}

// Computing and waiting, by worker. Of many, those that others waited for.
function workerTimes(workers) {
  const most = 32;
  let shown = workers.map((w, rank) => ({...w, rank})).filter((w) => known(w.waiting_s));
  if (!shown.length) return [];
  const all = shown.length;
  if (all > most) shown = shown.sort((a, b) => a.waiting_s - b.waiting_s).slice(0, most);
  const longest = Math.max(...shown.map((w) => w.computing_s + w.waiting_s), 1e-9);
  const rows = shown.flatMap((w) => {
    const part = (s) => element("i", {style: `width: ${(100 * s / longest).toFixed(2)}%`});
    return [
      element("span", {}, `rank ${w.rank}`),
      element("span", {class: "bar"}, part(w.computing_s), part(w.waiting_s)),
      element("span", {class: "right"}, `${seconds(w.computing_s)} + ${seconds(w.waiting_s)}`)];
  });
  const key = (color, text) => element("span", {},
    element("i", {class: "swatch", style: `--color: var(${color})`}), text);
  return section("Time of each worker", element("div", {class: "card"},
    element("div", {class: "head"},
      element("p", {class: "lead-in", style: "margin: 0"},
        "A worker that hardly waits is the one that others wait for." +
        (all > most ? ` The ${most} of ${all} workers that waited least.` : "")),
      element("span", {class: "keys"}, key("--c0", "computing"), key("--c1", "waiting for others"))),
    element("div", {class: "workers"}, ...rows)));
}

function gallery(title, note, examples, names) {
  if (!examples || !examples.length) return [];
  const pictures = examples.map((e) => {
    const right = e.truth === e.predicted;
    return element("figure", {title: `test image ${e.index}`},
      element("img", {src: e.image, alt: names[e.truth]}),
      element("figcaption", {},
        element("span", {class: right ? "right-answer" : "wrong"}, names[e.predicted]),
        element("span", {class: "soft"}, ` ${percent(e.confidence, 0)}`),
        ...(right ? [] : [element("br"), element("span", {class: "soft"}, `is ${names[e.truth]}`)])));
  });
  return section(title, element("div", {class: "card"}, element("p", {class: "lead-in"}, note),
                                element("div", {class: "gallery"}, ...pictures)));
}

// What a language model writes after a few words of the test.
function writing(generated) {
  if (!generated || !generated.samples.length) return [];
  const note = "The model goes on after the grey beginnings, which are from the test. Drawn by the run's seed from " +
    `the ${generated.top_k} likeliest tokens, at temperature ${generated.temperature}.`;
  return section("What the model writes", element("div", {class: "card"},
    element("p", {class: "lead-in"}, note),
    ...generated.samples.map((s) => element("pre", {class: "writing"},
      element("span", {class: "soft"}, s.prompt), s.text))));
}

// Rows are the truth, columns what the model said. Of many classes there is none.
function confusion({classes: names, confusion: counts}) {
  const n = names.length;
  if (!counts) return [];
  const head = element("tr", {}, element("th"), ...names.map((c) => element("th", {}, c)),
                       element("th", {}, "right"));
  const body = names.map((name, t) => {
    const row = counts.slice(t * n, (t + 1) * n), all = row.reduce((a, b) => a + b, 0);
    const cells = row.map((count, p) => {
      const share = all ? count / all : 0;
      const strength = 0.75 * (t === p ? share : Math.min(1, share * 4));
      const color = t === p ? "--heat" : "--miss";
      return element("td", {style: `background: rgba(var(${color}), ${strength.toFixed(3)})`,
        title: `${plural(count, "image")} of ${name} taken for ${names[p]}`}, count ? String(count) : "");
    });
    return element("tr", {}, element("th", {}, name), ...cells,
                   element("td", {class: "soft"}, all ? percent(row[t] / all, 0) : "–"));
  });
  return section("What is taken for what", element("div", {class: "card scroll"},
    element("p", {class: "lead-in"}, "Test images by what they are (rows) and what the model says (columns)."),
    element("table", {class: "matrix"}, element("thead", {}, head), element("tbody", {}, ...body))));
}
