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
  const isTest = "test_accuracy" in row, rows = isTest ? run.tests : run.steps, sum = run.summary;
  if (rows.length && row.step <= rows[rows.length - 1].step) return false;
  rows.push(row);
  sum.step = Math.max(sum.step, row.step);
  sum.seconds = row.seconds;
  if (isTest) {
    sum.test_accuracy = row.test_accuracy;
    if ("test_perplexity" in row) {
      sum.test_perplexity = row.test_perplexity;
      sum.test_bits_per_byte = row.test_bits_per_byte;
    }
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
