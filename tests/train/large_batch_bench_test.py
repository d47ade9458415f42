"""`asup bench large-batch`: what it trains, its table, its page, and rows that are not run again."""

import json
import os
import unittest

from harness import Case, Run

# A small network on 400 small images, and 90 to test on.
DATA = ("--synthetic-samples 400 --synthetic-test-samples 90 --synthetic-shape 1x8x8 --width 16 "
        "--no-tensorboard")


class LargeBatchBench(Case):
    def bench(self, *flags, train=DATA):
        return self.call("bench", "large-batch", "--model=mlp", "--data=synthetic", "--train", train, "--epochs=2",
                         f"--out={self.path('runs')}", f"--json={self.path('rows.json')}", *flags)

    def rows(self):
        with open(self.path("rows.json")) as file:
            return {(row["way"], row["batch"]): row for row in json.load(file)}

    def runs(self):
        """Names of the run folders."""
        return {name for name in os.listdir(self.path("runs")) if not name.endswith(".log")}

    def run_named(self, name):
        return Run(os.path.join(self.path("runs"), name))

    def test_it_tunes_compares_and_goes_on(self):
        # A portion of 20 samples: a batch of 100 on two workers has three.
        flags = ["--ways=sgd,lars", "--batches=20,100", "--portion=20", "--jobs=2",
                 f"--html={self.path('page.html')}", f"--rates={self.path('rates.json')}"]
        done = self.bench("--seeds=1", *flags)
        rows = self.rows()
        self.assertEqual(set(rows), {("sgd", 20), ("sgd", 100), ("lars", 20), ("lars", 100)})
        self.assertEqual({cell: row["updates"] for cell, row in rows.items()},
                         {("sgd", 20): 40, ("lars", 20): 40, ("sgd", 100): 8, ("lars", 100): 8})
        self.assertAlmostEqual(rows["sgd", 100]["lr"], 5 * rows["sgd", 20]["lr"])
        self.assertEqual({cell for cell, row in rows.items() if not row["tuned"]}, {("sgd", 100)})
        with open(self.path("rates.json")) as file:
            rates = {row["way"]: row["lr"] for row in json.load(file)}
        self.assertEqual(set(rates), {"sgd-20", "lars-20", "lars-100"})
        self.assertEqual(rates["lars-100"], rows["lars", 100]["lr"])

        table = [line.split() for line in done.stdout.splitlines()]
        start = next(index for index, line in enumerate(table) if line[:2] == ["way", "batch"])
        self.assertEqual([line[:2] for line in table[start + 1:start + 5]],
                         [["sgd", "20"], ["sgd", "100"], ["lars", "20"], ["lars", "100"]])
        with open(self.path("page.html")) as file:
            page = file.read()
        self.assertEqual(page.count("<polyline"), 2)
        self.assertEqual(page.count("<circle"), 4)

        for name, row in (("lars-100-1", rows["lars", 100]), ("sgd-100-1", rows["sgd", 100])):
            self.assertAlmostEqual(self.run_named(name).summary["test_accuracy"], row["accuracy"])
        with open(self.run_named("lars-100-1").path("config.toml")) as file:
            config = file.read()
        self.assertIn("accumulate = 3", config)
        self.assertIn("warmup = 1", config)
        self.assertNotIn("lars-100-1-tuning", " ".join(self.runs()))

        # Another seed runs alone, with the rates that are known; what is there stays.
        before = {name: os.stat(os.path.join(self.path("runs"), name)).st_mtime_ns for name in self.runs()}
        self.bench("--seeds=2", *flags)
        self.assertEqual(self.runs() - set(before), {"sgd-20-2", "sgd-100-2", "lars-20-2", "lars-100-2"})
        for name, when in before.items():
            self.assertEqual(os.stat(os.path.join(self.path("runs"), name)).st_mtime_ns, when, name)
        for cell, row in self.rows().items():
            self.assertEqual(row["seeds"], [1, 2])
            self.assertEqual(row["accuracies"][0], rows[cell]["accuracies"][0])

    # 20 steps an epoch: two epochs are 10 updates of a batch, and then of four batches.
    def test_batches_grow(self):
        self.bench("--quick", "--ways=nesterov,growing", "--batches=20,80")
        rows = self.rows()
        self.assertEqual({cell: row["updates"] for cell, row in rows.items()},
                         {("nesterov", 20): 40, ("nesterov", 80): 10, ("growing", 80): 10 + 3 + 5})
        self.assertEqual(self.run_named("growing-80-1").summary["batch_schedule"], "4@25%")

    def test_rows_of_other_jobs_stay(self):
        self.bench("--quick", "--ways=nesterov", "--batches=50")
        first = self.rows()["nesterov", 50]
        self.assertFalse(first["tuned"])
        self.bench("--quick", "--ways=lamb", "--batches=50")
        self.assertEqual(self.rows()["nesterov", 50], first)
        self.assertEqual(len(self.rows()), 2)

    def test_a_run_that_diverges_is_a_result(self):
        done = self.bench("--quick", "--ways=nesterov", "--batches=20,50", "--workers=1", "--jobs=2",
                          train=DATA + " --synthetic-noise 1000000")
        for row in self.rows().values():
            self.assertEqual((row["diverged"], row["accuracies"], row["accuracy"]), (1, [None], None))
        self.assertEqual(done.stdout.count("1 diverged"), 2)

    def test_what_cannot_be_is_refused_at_once(self):
        flags = ["bench", "large-batch", "--data=synthetic", "--ways=lars", "--batches=64"]
        with open(self.path("other.json"), "w") as file:
            file.write('[{"scene": "slow"}]')
        self.assertIn("name another file", self.refused(*flags, f"--json={self.path('other.json')}"))
        self.assertIn("asup train has no flag --wdith; did you mean 'width'?",
                      self.refused(*flags, "--train=--wdith 3"))
        self.assertIn("synthetic has 50 training samples",
                      self.refused(*flags, "--train=--synthetic-samples 50"))
        self.assertFalse(os.path.exists(self.path("runs")))


if __name__ == "__main__":
    unittest.main()
