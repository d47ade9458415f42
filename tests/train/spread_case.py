"""What the tests of models that several workers train together share."""

import json

from harness import SMALL, Case

GPT = ["--model=gpt", "--width=32", "--depth=3", "--heads=2", "--context=16", "--batch=16", "--weight-decay=0.1",
       "--lr=0.1", "--threads=1", "--log-every=1", "--seed=5", "--eval-every=never",
       "--steps=20"]


class SpreadCase(Case):
    def assert_same_losses(self, run, other, within=1e-5):
        self.assertEqual(len(run.losses), len(other.losses))
        for step, (a, b) in enumerate(zip(run.losses, other.losses), 1):
            self.assertLessEqual(abs(a - b), within * abs(b), f"step {step}: {a} and {b}")

    def assert_same_course(self, run, other, within=1e-5):
        self.assert_same_losses(run, other, within)
        self.assertAlmostEqual(run.summary["test_accuracy"], other.summary["test_accuracy"], 2)
        self.assertLessEqual(abs(run.summary["test_loss"] - other.summary["test_loss"]),
                             10 * within * other.summary["test_loss"])

    def resume(self, run, *flags):
        self.call("train", f"--resume={run.folder}", *flags)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def write_book(self):
        """Data for GPT."""
        return f"--data=text:{self.write('book.txt', 'so it begins, and so it goes on and on. ' * 60)}"

    def refused_train(self, *flags):
        return self.refused("train", *SMALL, *flags)

    def check_same_bits_when_resumed(self, flags, name="run"):
        whole, again = self.train(f"{name} whole", *flags), self.train(f"{name} again", *flags, "--stop-at=13")
        self.resume(again)
        self.assertEqual(again.sha, whole.sha)
        self.assertEqual(again.losses, whole.losses)

    def check_model_is_like_any(self, flags, grid):
        """It is tested by `asup eval`, and others begin with it."""
        run = self.train("run", *flags, *grid)
        self.call("eval", run.folder, f"--json={self.path('marks')}")
        with open(self.path("marks")) as file:
            self.assertAlmostEqual(json.load(file)["test_accuracy"], run.summary["test_accuracy"], 6)
        tuned = self.train("tuned", *flags, *grid, f"--init={run.folder}")
        alone = self.train("tuned alone", *flags, "--workers=1", f"--init={run.folder}")
        self.assertLess(tuned.losses[0], run.losses[0])
        self.assert_same_course(tuned, alone)
