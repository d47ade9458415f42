"""What the tests of models that several workers train together share."""

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
