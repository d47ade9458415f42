// What the page shows: a run, several, or one that is watched while it goes.
function watch() {
  const page = new RunPage(true);
  at("main").hidden = true;  // until there is a run to show
  const events = new EventSource("events");
  let due = 0;
  const showSoon = () => { due = due || setTimeout(() => { due = 0; page.brief(); }, 250); };
  events.addEventListener("run", (event) => {
    at("main").hidden = false;
    page.live = true;
    page.show(JSON.parse(event.data));
  });
  events.addEventListener("row", (event) => {
    if (page.run && addRow(page.run, JSON.parse(event.data))) showSoon();
  });
  events.addEventListener("end", () => events.close());
  events.addEventListener("error", () => page.lose());
}

// False for a row that the run has already.
function addRow(run, row) {
  const isTest = !("loss" in row), rows = isTest ? run.tests : run.steps, sum = run.summary;
  const last = rows[rows.length - 1], isOther = last && "test_accuracy" in row && "validation_accuracy" in last;
  if (last && (isOther ? row.step < last.step : row.step <= last.step)) return false;
  rows.push(row);
  sum.step = Math.max(sum.step, row.step);
  sum.seconds = row.seconds;
  if (isTest) {
    for (const key of Object.keys(row))
      if (/^(test|validation)_(accuracy|top5|perplexity|bits_per_byte)$/.test(key)) sum[key] = row[key];
  } else {
    if (known(row.loss)) sum.final_loss = row.loss;
    sum.samples += row.samples;
    sum.train_seconds += row.step_s;
    sum.comm_s += row.comm_s;
    sum.samples_per_s = sum.samples / sum.train_seconds;
    sum.comm_share = sum.comm_s / sum.train_seconds;
  }
  return true;
}

const data = JSON.parse(at("data").textContent);
if (data.live) watch();
else if (data.runs.length === 1) new RunPage(false).show(data.runs[0]);
else new ComparisonPage().show(data.runs);
