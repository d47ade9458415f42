"""How the report draws what the controller of an adaptive pace chose."""

import json
import os
import unittest

from browser import Browser
from page_case import PageCase

STEPS = 40


def choice(step, name, workers, slow=(), **rest):
    """Workers in `slow` take four times as long as others."""
    times = [0.08 if worker in slow else 0.02 for worker in workers]
    lengths = [1.0] * len(workers)
    if "balanced" in name:
        lengths = [len(workers) / time / sum(1 / other for other in times) for time in times]
    return {"seconds": step / 10, "step": step, "version": step, "name": name, "bounds": "gather all, keep 8",
            "workers": list(workers), "lengths": lengths, "lease_seconds": times, "sensitivity": 0.75, "weight": 2.0,
            "speed": 0.875, "staleness": 0.125, "score": 0.625, "score_before": 0.5,
            "reason": f"the reason of step {step}", **rest}


class PacePage(PageCase):
    def setUp(self):
        super().setUp()
        self.trained = self.train("run", "--sync=asup", "--workers=2", f"--steps={STEPS}")
        self.browser = Browser()
        self.addCleanup(self.browser.__exit__)

    def show(self, choices, workers, **more):
        """The report of the run, as if its controller had chosen these."""
        summary = self.trained.summary
        summary.update({"workers": workers, **more})
        summary["server"]["choices"] = choices
        with open(self.trained.path("summary.json"), "w") as file:
            json.dump(summary, file)
        return self.open_report()

    def open_report(self):
        self.call("report", "run")
        self.browser.open("about:blank")
        self.browser.wait_for("!document.querySelector('.card')")
        self.browser.open("file://" + self.trained.path("report.html"))
        self.browser.wait_for("document.querySelector('.chosen')")
        self.check_axes(self.browser)
        return self.check_text(self.browser)

    def texts(self, selector):
        return self.browser.evaluate(f"[...document.querySelectorAll('{selector}')].map((e) => e.textContent)")

    def bands(self):
        """(x, width) of all of them."""
        paths = self.browser.evaluate("[...document.querySelectorAll('.band')].map((e) => e.getAttribute('d'))")
        parts = [part for path in paths for part in path.split("M")[1:]]
        ends = [(float(part.split(" ")[0]), float(part.split("H")[1].split("v")[0])) for part in parts]
        return [(begin, end - begin) for begin, end in ends]

    def tip(self, step, below):
        """What is told at a step, so far down the bands."""
        x, y = self.browser.evaluate(f"""(() => {{
            const svg = document.querySelector('.chosen').closest('svg');
            svg.scrollIntoView({{block: 'center'}});
            const place = (anchor, key, text) => +[...svg.querySelectorAll(`text[text-anchor=${{anchor}}]`)]
              .find((e) => e.textContent === text).getAttribute(key);
            const [begin, end] = ['0', '{STEPS}'].map((text) => place('middle', 'x', text));
            const [top, bottom] = ['100', '0'].map((text) => place('end', 'y', text) - 4);
            const box = svg.getBoundingClientRect();
            return [box.left + begin + (end - begin) * {step / STEPS}, box.top + top + (bottom - top) * {below}];
        }})()""")
        self.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return self.browser.evaluate("document.getElementById('tip').textContent")

    def table(self):
        """Rows of the choices' table, by the names of columns."""
        rows = self.browser.evaluate("""[...[...document.querySelectorAll('.figures')].pop().rows].map(
            (row) => [...row.cells].map((cell) => cell.textContent))""")
        return [dict(zip(rows[0], row)) for row in rows[1:]]

    def test_a_real_run(self):
        chosen = self.trained.summary["server"]["choices"]
        self.show(chosen, 2)
        self.assertEqual(len(self.table()), len(chosen))
        self.assertEqual(self.table()[-1]["Why"], chosen[-1]["reason"])
        self.assertGreaterEqual(len(self.bands()), 2)
        samples = [one["samples"] for one in chosen]  # applied until then
        self.assertEqual(samples, sorted(samples))
        self.assertLessEqual(samples[-1], self.trained.summary["server"]["samples"])
        os.remove(self.trained.path("summary.json"))  # as of a run that was killed: the last sync point's
        self.assertIn("This run has no end", self.open_report())
        self.assertEqual(len(self.table()), len(chosen))

    # Two workers that need 20 ms for their halves, and 80 ms from step 10 on: a step of 24 samples in 20 ms would be all
    # that they can do, and then one in 80 ms.
    def test_measured_speed(self):
        chosen = [choice(0, "together", range(2)), choice(10, "together", range(2), slow=[0, 1])]
        rows = [{"step": 10, "samples_per_s": 24 / 0.04}, {"step": 20, "samples_per_s": 24 / 0.08},
                {"step": 30, "samples_per_s": 24 / 0.1}]
        self.show(chosen, 2)
        def measured(rows):
            run = {"steps": rows, "summary": {"workers": 2, "batch": 24}}
            points = self.browser.evaluate(f"measuredSpeed({json.dumps(run)}, {json.dumps(chosen)})")
            return [(point["x"], round(point["y"], 6)) for point in points]
        self.assertEqual(measured(rows), [(10, 50), (20, 100), (30, 80)])
        self.assertEqual(measured([{"step": 20, "samples_per_s": 24 / 0.1}]), [(20, 50)])  # a row of both
        self.assertEqual(self.browser.evaluate(f"heldLine({json.dumps(chosen)}, 40, (c) => c.step)"),
                         [{"x": 0, "y": 0}, {"x": 10, "y": 0}, {"x": 10, "y": 10}, {"x": 40, "y": 10}])

    # To the servers, two workers that train one model are one, which the report calls a group.
    def test_groups_of_a_pipeline(self):
        chosen = [choice(0, "together", range(2)), choice(10, "nobody waits", [0])]
        self.show(chosen, 4, pipeline=2, pipeline_schedule="1f1b", microbatches=2, stages="2 stages")
        self.assertIn("group 0", self.texts(".inside"))
        self.assertFalse([text for text in self.texts(".inside, .figures td") if text.startswith("rank ")])
        self.assertIn("Group", self.texts(".figures th"))
        self.assertIn("left since the choice before: group 1", self.tip(10, 0.5))
        run = {"steps": [{"step": 10, "samples_per_s": 24 / 0.04}],
               "summary": {"workers": 4, "pipeline": 2, "batch": 24}}
        points = self.browser.evaluate(f"measuredSpeed({json.dumps(run)}, {json.dumps(chosen)})")
        self.assertEqual([(point["x"], round(point["y"], 6)) for point in points], [(10, 50)])

    # 100 samples that were in time until step 10, 100 until 20 that were half a step late, and 200 that were one.
    def test_measured_lateness(self):
        server = {"samples": 400, "mean_staleness_steps": 250 / 400}
        told = [{"step": 10, "samples": 100, "mean_staleness_steps": 0},
                {"step": 10, "samples": 100, "mean_staleness_steps": 0},
                {"step": 20, "samples": 200, "mean_staleness_steps": 0.25}]
        self.show([choice(1, "together", range(2))], 2)
        def measured(chosen):
            return self.browser.evaluate(f"measuredLateness({json.dumps(server)}, {json.dumps(chosen)}, 40)")
        line = [(point["x"], point["y"]) for point in measured(told)["points"]]
        self.assertEqual(line, [(0, 0), (10, 0), (10, 0.5), (20, 0.5), (20, 1), (40, 1)])
        mean = measured([{"step": 10}])
        self.assertEqual(mean["name"], "measured, mean of the run")
        self.assertEqual([(point["x"], point["y"]) for point in mean["points"]], [(10, 0.625), (40, 0.625)])

    # Of four workers, one becomes slow, one leaves and comes again.
    def test_bands_marks_and_words(self):
        text = self.show([choice(1, "together", range(4)),
                          choice(10, "together, balanced", range(4), slow=[3]),
                          choice(20, "together, balanced", [0, 2, 3], slow=[3]),
                          choice(30, "nobody waits", range(4))], 4)
        self.assertEqual(len(self.bands()), 4 + 4 + 3 + 4)
        self.assertEqual(len({begin for begin, _ in self.bands()}), 4)
        self.assertEqual(len(self.texts(".chosen")), 3)    # names
        self.assertEqual(len(self.texts(".decision")), 4)  # three of another name, one of other figures
        labels = self.texts(".inside")  # there is not room for all
        self.assertEqual(labels.count("rank 0"), 3)
        self.assertEqual(labels.count("rank 1"), 2)
        for name in "together", "together, balanced", "nobody waits":
            self.assertIn(name, self.texts(".keys span"))
        tip = self.tip(15, 0.99)
        for words in ("step 10, after 1.0 s: together, balanced", "gather all, keep 8", "score 0.625",
                      "before: 0.500", "88\u00a0% of the workers' summed speed", "0.125 steps late",
                      "γ × weight: 0.75 × 2 = 1.5", "the reason of step 10",
                      "rank 3: 7.7\u00a0% of a batch, 0.31 times an even lease", "80 ms, 4.0 times the fastest"):
            self.assertIn(words, tip)
        self.assertNotIn("communication", tip)
        self.assertIn("left since the choice before: rank 1", self.tip(25, 0.1))
        self.assertIn("rank 2:", self.tip(25, 0.6))
        self.assertIn("new since the choice before: rank 1", self.tip(35, 0.1))
        self.assertIn("step 10,", self.tip(10, 0.5))
        self.assertNotIn("Communication", self.table()[0])
        self.assertEqual(self.table()[1]["γ × weight"], "1.5")
        self.assertIn("Speed, of what the workers could do together", text)
        self.assertNotIn("Communication, as choices saw it", text)

    def test_what_only_some_choices_know(self):
        bare = {"step": 20, "name": "local, every 8", "reason": "the exchange takes long"}
        text = self.show([choice(1, "together", range(2)),
                          choice(10, "all-reduce, balanced", range(2), exchange_share=0.4), bare], 2)
        self.assertEqual(len(self.bands()), 4)
        self.assertIn("communication: 40\u00a0% of a step", self.tip(15, 0.5))
        self.assertEqual(self.tip(30, 0.5), "step 20: local, every 8\nthe exchange takes long")
        rows = self.table()
        self.assertEqual([row["Communication"] for row in rows], ["–", "40\u00a0%", "–"])
        self.assertEqual((rows[2]["Choice"], rows[2]["Score"]), ("local, every 8", "–"))
        self.assertIn("Communication, as choices saw it", text)

    def test_one_worker_and_many_and_few_choices_and_many(self):
        self.show([choice(1, "together", [0])], 1)
        self.assertEqual((len(self.bands()), self.texts(".inside")), (1, ["rank 0"]))
        names = ["together", "together, balanced", "nobody waits"]
        many = [choice(1 + i // 5, names[i // 10 % 3], range(64), slow=[i % 64]) for i in range(195)]
        text = self.show(many, 64)
        self.assertEqual(len(self.bands()), 39 * 64)  # of several at a step, the last is in force
        self.assertEqual(len(self.texts(".band")), 2)  # paths: fast and slow
        self.assertIn("of 195 choices", text)
        for width in 400, 800, 1400:
            self.browser.resize(width, 900)
            self.browser.wait_for(f"document.querySelector('.chosen').closest('svg').clientWidth < {width}")
            self.browser.wait_for(f"document.documentElement.scrollWidth <= {width}")  # it may be drawing yet


if __name__ == "__main__":
    unittest.main()
