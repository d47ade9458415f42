"""What a step trains on, and what comes out, does not depend on the number of workers."""

import unittest

from harness import SMALL, Case


class Equivalence(Case):
    def assert_same_course(self, run, other, within=1e-5):
        self.assertEqual(len(run.losses), len(other.losses))
        for step, (a, b) in enumerate(zip(run.losses, other.losses), 1):
            self.assertLessEqual(abs(a - b), within * abs(b), f"step {step}: {a} and {b}")
        self.assertAlmostEqual(run.summary["test_accuracy"], other.summary["test_accuracy"], 2)

    # Of the many ReLUs of a convolutional network, one whose input is all but zero may be switched
    # by rounding. At this learning rate that moves a loss by up to 3e-4 of it; a gradient that is
    # wrong by a percent, by more than 1e-3.
    def test_workers_follow_one_process(self):
        flags = ["--steps=50", "--lr=0.001", "--model=cnn", "--width=4"]
        alone = self.train("one", *flags, "--workers=1")
        self.assertEqual([row["step"] for row in alone.rows if "loss" in row],
                         list(range(1, 51)))
        self.assertLess(alone.losses[-1], 0.8 * alone.losses[0])  # it learns
        for workers in 2, 3:
            run = self.train(f"{workers}", *flags, f"--workers={workers}")
            self.assert_same_course(run, alone, within=1e-3)

    # 400 samples are 16 batches of 24 and one of 16; 3 workers have 6, 5 and 5 of those.
    def test_last_batch_weighs_by_samples(self):
        flags = ["--epochs=3", "--momentum=0"]
        alone = self.train("one", *flags, "--workers=1")
        self.assertEqual(alone.rows[16]["samples"], 16)
        self.assert_same_course(self.train("three", *flags, "--workers=3"), alone)

    # 6 batches of 8 and one of 2, for 4 workers: two of them have nothing to do in it.
    def test_workers_without_samples(self):
        flags = ["--epochs=2", "--batch=8", "--synthetic-samples=50"]
        alone = self.train("one", *flags, "--workers=1")
        self.assertEqual(alone.rows[6]["samples"], 2)
        self.assert_same_course(self.train("four", *flags, "--workers=4"), alone)

    def test_portions_add_up_to_a_batch(self):
        flags = ["--steps=30", "--optimizer=adam"]
        alone = self.train("one", *flags, "--workers=1")
        self.assert_same_course(self.train("cut", *flags, "--workers=2", "--accumulate=5"), alone)

    # The norm of the average, as one process has it, and not the average of what each has clipped.
    def test_clipping(self):
        flags = ["--steps=30", "--momentum=0", "--lr=0.3", "--clip-norm=0.1"]
        alone, free = self.train("one", *flags, "--workers=1"), self.train("free", *flags[:-1])
        self.assertGreater(alone.summary["test_loss"], 1.5 * free.summary["test_loss"])
        self.assert_same_course(self.train("three", *flags, "--workers=3"), alone)
        for servers in 1, 2:
            through = self.train(f"servers {servers}", *flags, "--workers=2", "--sync=server", "--pace=bsp",
                                 f"--servers={servers}")
            self.assertLessEqual(abs(through.summary["test_loss"] - alone.summary["test_loss"]),
                                 1e-4 * alone.summary["test_loss"])

    # Without momentum, a step moves the model by no more than what it is clipped to.
    def test_clipping_reaches_every_way(self):
        flags = ["--workers=2", "--steps=12", "--momentum=0", "--lr=0.3"]
        for way in ("allreduce", "local --every=3", "diloco --every=4", "slowmo --every=4", "gossip",
                    "adpsgd", "server --pace=bsp", "server --pace=asp",
                    "server --pace=bsp --merge=mean --every=3"):
            name, *more = way.split()
            free = self.train(f"free {way}", *flags, f"--sync={name}", *more)
            clipped = self.train(f"clipped {way}", *flags, f"--sync={name}", *more, "--clip-norm=0.001")
            with self.subTest(way):
                self.assertGreater(clipped.summary["test_loss"], free.summary["test_loss"] + 0.3)

    # BatchNorm over all workers' samples, forward and backward, at a learning rate at which ReLUs that
    # rounding switches do not matter (as above); 42 samples are 3 batches of 12 and one
    # of 6, of which 4 workers have 2 or 1.
    def test_batch_norm_of_all_workers(self):
        flags = ["--model=resnet18", "--width=auto", "--synthetic-shape=3x8x8", "--synthetic-samples=42",
                 "--batch=12", "--epochs=2", "--lr=0.00005", "--conv-path=onednn"]
        alone = self.train("one", *flags, "--workers=1")
        apart = self.train("apart", *flags, "--workers=2")
        gap = max(abs(a - b) / b for a, b in zip(apart.losses, alone.losses))
        self.assertGreater(gap, 1e-2)  # each normalises by its own part
        for workers in 2, 4:
            run = self.train(f"{workers}", *flags, f"--workers={workers}", "--sync-bn")
            self.assert_same_course(run, alone, within=1e-3)
            self.assertAlmostEqual(run.summary["test_loss"], alone.summary["test_loss"], 3)

    # One worker has no sample of the last batch, and takes part in its statistics all the same. Those
    # of two samples turn roundings into something: what a test gives of it is not compared.
    def test_batch_norm_of_workers_without_samples(self):
        flags = ["--model=resnet18", "--width=auto", "--synthetic-shape=3x8x8", "--synthetic-samples=18",
                 "--batch=8", "--epochs=1", "--lr=0.00005", "--conv-path=onednn"]
        alone = self.train("one", *flags, "--workers=1")
        three = self.train("three", *flags, "--workers=3", "--sync-bn")
        self.assertEqual(len(three.losses), len(alone.losses))
        for a, b in zip(three.losses, alone.losses):
            self.assertLessEqual(abs(a - b), 1e-3 * b)

    def test_batch_norm_of_all_workers_is_refused_where_it_makes_no_sense(self):
        norms = [*SMALL, "--model=resnet18", "--width=auto", "--synthetic-shape=3x8x8", "--sync-bn"]
        self.assertIn("sync-bn = true has no effect: model mlp has no BatchNorm",
                      self.refused("train", *SMALL, "--sync-bn"))
        for way in "local", "diloco", "gossip", "adpsgd", "server":
            self.assertRegex(self.refused("train", *norms, f"--sync={way}"),
                             f"sync-bn needs all workers in the same layer .* with sync = {way} each goes")
        self.assertIn("sync-bn needs", self.refused("train", *norms, "--then=local"))
        self.assertIn("which accumulate = 2 cuts up", self.refused("train", *norms, "--accumulate=2"))
        self.assertIn("models that asup knows by name", self.refused("train", *norms, "--model=./libmine.so"))

    def test_optimizers_of_our_own(self):
        for optimizer in "lars", "lamb", "asup":
            flags = ["--steps=30", f"--optimizer={optimizer}"]
            alone = self.train(f"one-{optimizer}", *flags, "--workers=1")
            self.assert_same_course(self.train(f"two-{optimizer}", *flags, "--workers=2"), alone)

    def test_remainders_can_be_dropped_or_filled_up(self):
        flags = ["--epochs=1", "--workers=2"]
        dropped = self.train("drop", *flags, "--remainder=drop")
        self.assertEqual(dropped.summary["steps_per_epoch"], 16)
        padded = self.train("pad", *flags, "--remainder=pad")
        self.assertEqual(padded.summary["steps_per_epoch"], 17)
        self.assertEqual(padded.summary["samples"], 17 * 24)

    def test_a_run_can_be_repeated(self):
        flags = ["--steps=40", "--workers=2", "--model=cnn", "--width=4", "--augment-shift=1"]
        first, second = self.train("first", *flags), self.train("second", *flags)
        self.assertEqual(first.losses, second.losses)
        self.assertEqual(first.sha, second.sha)
        other = self.train("other", *flags, "--seed=8")
        self.assertNotEqual(first.sha, other.sha)

    def test_another_launcher_starts_the_same_run(self):
        own = self.train("own", "--steps=10", "--workers=2")
        flags = [*SMALL, "--steps=10", f"--out={self.path('run')}"]
        self.call("run", "-n", "2", "--", *self.command("train", *flags))
        with open(self.path("run/summary.json")) as file:
            self.assertIn(own.sha, file.read())
        refused = self.call("run", "-n", "2", "--", *self.command("train", *flags, "--workers=3"),
                            status=2)
        self.assertIn("workers = 3, but asup run started 2 ranks", refused.stderr)


if __name__ == "__main__":
    unittest.main()
