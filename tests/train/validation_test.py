"""Tests between: on samples that were set aside, the best one kept, and the end of a run that gets no better."""

import json
import os
import unittest

from harness import SMALL, Case, Run

# Steps that change nothing: no test is better than the first. An epoch has 17.
STILL = ["--workers=2", "--lr=1e-12", "--epochs=9"]


class Validation(Case):
    def marks(self, run):
        return [row for row in run.rows if "loss" not in row]

    def test_the_test_set_is_for_the_end_alone(self):
        run = self.train("run", "--workers=2", "--epochs=3", "--validation=0.1")
        *between, last = self.marks(run)
        self.assertEqual(len(between), 3)
        for row in between:
            self.assertEqual(row["validation_samples"], 40)
            self.assertIn("validation_top5", row)
            self.assertFalse([key for key in row if key.startswith("test_")])
        self.assertEqual(last["test_samples"], 90)
        self.assertFalse([key for key in last if key.startswith("validation_")])
        summary = run.summary
        self.assertEqual(summary["train_samples"], 360)
        self.assertEqual(summary["validation_samples"], 40)
        self.assertEqual(summary["validation_loss"], between[-1]["validation_loss"])
        self.assertEqual(summary["test_loss"], last["test_loss"])
        self.assertEqual(summary["test_top5"], last["test_top5"])
        self.assertGreaterEqual(summary["test_top5"], summary["test_accuracy"])
        self.call("eval", run.folder, "--json=" + self.path("marks.json"))
        with open(self.path("marks.json")) as file:
            marks = json.load(file)
        self.assertAlmostEqual(marks["test_loss"], last["test_loss"], delta=1e-5)
        self.assertAlmostEqual(marks["test_top5"], last["test_top5"], delta=1e-9)

    # Of noise that is learnt by heart: what was trained on is known, what was set aside is not.
    def test_what_is_set_aside_is_not_trained_on(self):
        for more in [], ["--augment-mixup=0.2"]:
            run = self.train("run", "--workers=2", "--epochs=60", "--validation=0.4",
                             "--synthetic-samples=100", "--synthetic-noise=100", "--width=256",
                             "--optimizer=adam", *more)
            if not more:
                self.assertLess(run.losses[-1], 0.1)
            self.assertLess(run.summary["validation_accuracy"], 0.5)

    def test_every_way_has_it_and_goes_on_to_the_same_bits(self):
        for sync in "allreduce", "local", "server":
            with self.subTest(sync=sync):
                flags = [f"--sync={sync}", "--workers=2", "--epochs=2", "--validation=0.2"]
                whole = self.train("whole-" + sync, *flags)
                parts = self.train("parts-" + sync, *flags, "--stop-at=16")
                self.call("train", f"--resume={parts.folder}")
                self.assertEqual(parts.sha, whole.sha)
                self.assertEqual(parts.summary["validation_loss"], whole.summary["validation_loss"])


class Patience(Case):
    def assert_ended_early(self, run, step, since):
        summary = run.summary
        self.assertEqual(summary["step"], step)
        self.assertTrue(summary["finished"])
        self.assertTrue(summary["ended_early"])
        self.assertEqual(summary["best_test"]["step"], 17)
        self.assertEqual(summary["best_test"]["tests_since"], since)
        self.assertIn("test_accuracy", summary)

    def test_the_run_ends_where_no_test_is_better(self):
        done = self.call("train", *SMALL, *STILL, "--patience=2", f"--out={self.path('run')}")
        run = Run(self.path("run"))
        self.assert_ended_early(run, 51, 2)
        self.assertIn("no test was better than that after step 17, 2 tests ago",
                      " ".join((done.stdout + done.stderr).split()))
        again = self.call("train", f"--resume={run.folder}")
        self.assertIn("already finished at step 51 of 153; give a larger --patience",
                      again.stdout + again.stderr)
        self.call("train", f"--resume={run.folder}", "--patience=3")
        self.assert_ended_early(run, 68, 3)

    def test_in_every_way(self):
        for sync in "local", "gossip", "server", "adpsgd":
            with self.subTest(sync=sync):
                run = self.train(sync, *STILL, f"--sync={sync}", "--patience=1", "--keep-best")
                self.assert_ended_early(run, 34, 1)

    def test_counts_on_after_a_stop(self):
        run = self.train("run", *STILL, "--patience=3", "--stop-at=40")
        self.assertFalse(run.summary["finished"])
        self.call("train", f"--resume={run.folder}")
        self.assert_ended_early(run, 68, 3)

    def test_a_run_that_gets_better_goes_on(self):
        run = self.train("run", "--workers=2", "--epochs=2", "--patience=1", "--lr=0.01")
        accuracies = [row["test_accuracy"] for row in run.rows if "test_accuracy" in row]
        self.assertGreater(accuracies[1], accuracies[0])
        self.assertEqual(run.summary["step"], 34)
        self.assertNotIn("ended_early", run.summary)


class KeepBest(Case):
    def names(self, run):
        return [os.path.basename(path) for path in run.checkpoints]

    def test_the_best_stays_beside_the_last(self):
        run = self.train("run", *STILL, "--keep-best")
        self.assertEqual(self.names(run), ["step-00000017", "step-00000136", "step-00000153"])
        self.assertEqual(os.readlink(run.path("checkpoints/best")), "step-00000017")
        self.call("eval", run.path("checkpoints/best"), "--json=" + self.path("marks.json"))
        with open(self.path("marks.json")) as file:
            marks = json.load(file)
        self.assertEqual(marks["test_accuracy"], run.summary["best_test"]["figure"])

    # A checkpoint is made for it, whatever checkpoint-every says.
    def test_tests_between_checkpoints_count(self):
        run = self.train("run", *STILL, "--keep-best", "--eval-every=5", "--checkpoint-every=40")
        self.assertEqual(self.names(run), ["step-00000005", "step-00000120", "step-00000153"])
        self.call("train", f"--resume={run.folder}", "--epochs=10")
        self.assertEqual(self.names(run), ["step-00000005", "step-00000160", "step-00000170"])


if __name__ == "__main__":
    unittest.main()
