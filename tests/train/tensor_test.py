"""A model whose layers workers compute together learns what one process learns, leaves what any run leaves, and goes
on with any other number of them."""

import json
import os
import signal
import unittest

from harness import PATIENCE, SMALL, Run
from spread_case import GPT, SpreadCase

# Odd in number, so that the scores of the last layer are cut; five classes, which two do not divide.
MLP = ["--depth=2", "--synthetic-classes=5", "--steps=30"]
ONE, TWO, GRID = (["--workers=1", "--tensor=1"], ["--workers=2", "--tensor=2"], ["--workers=4", "--tensor=2"])


class SameCourse(SpreadCase):
    def test_of_fully_connected_layers(self):
        for depth in 2, 3:
            flags = [*MLP, f"--depth={depth}"]
            alone = self.train(f"one {depth}", *flags, "--workers=1")
            self.assertLess(alone.losses[-1], 0.8 * alone.losses[0])
            for name, grid in ("two", TWO), ("grid", GRID), ("six", ["--workers=6", "--tensor=2"]):
                with self.subTest(depth=depth, grid=name):
                    self.assert_same_course(self.train(f"{name} {depth}", *flags, *grid), alone)

    def test_of_a_language_model(self):
        data = self.write_book()

        def train(name, *flags):
            self.call("train", *GPT, data, *flags, f"--out={self.path(name)}")
            return Run(self.path(name))

        alone = train("one", "--workers=1", "--clip-norm=0.5")
        for name, grid in ("two", TWO), ("grid", GRID):
            with self.subTest(name):
                run = train(name, *grid, "--clip-norm=0.5")
                self.assert_same_losses(run, alone)
                self.assertAlmostEqual(run.summary["test_loss"], alone.summary["test_loss"], 4)
                self.assertEqual(run.summary["parameters"], alone.summary["parameters"])
                self.assertTrue(os.path.exists(run.path("generated.json")))
        dropout = [*GRID, "--dropout=0.2"]
        once, again = train("dropout", *dropout), train("dropout again", *dropout)
        self.assertEqual(once.sha, again.sha)
        stopped = train("dropout stopped", *dropout, "--stop-at=9")
        self.resume(stopped)
        self.assertEqual(stopped.sha, once.sha)

    # On each new grid numbers are drawn anew, whatever ranks have drawn before.
    def test_what_dropout_draws_on_another_grid(self):
        flags = [*GPT, self.write_book(), "--dropout=0.2"]
        shas = []
        for name, between in ("once", []), ("twice", [TWO]):
            run = Run(self.path(name))
            self.call("train", *flags, *ONE, "--stop-at=6", f"--out={run.folder}")
            for grid in between:
                self.resume(run, *grid, "--stop-at=7")
            self.resume(run, *TWO)
            shas.append(run.sha)
        self.assertEqual(*shas)

    # What is not cut is the same to the bit in all of a group, whose parts three groups exchange in circles of their own.
    def test_of_three_groups(self):
        self.check_same_bits_when_resumed([*MLP, "--workers=6", "--tensor=2", "--algorithm=ring", "--optimizer=adam"])

    # The norm of what is cut is that of all parts, and of what is not, of one. 400 samples are 16 batches of
    # 24 and one of 16.
    def test_by_the_norm_of_the_whole_model(self):
        flags = ["--depth=3", "--epochs=2", "--momentum=0", "--lr=0.3"]
        alone, free = self.train("one", *flags, "--workers=1", "--clip-norm=0.1"), self.train("free", *flags)
        self.assertGreater(alone.summary["test_loss"], 1.1 * free.summary["test_loss"])
        self.assert_same_course(self.train("grid", *flags, *GRID, "--clip-norm=0.1"), alone)

    def test_with_what_goes_along(self):
        for name, more in (("mixed", ["--augment-mixup=0.4"]), ("portions", ["--accumulate=3"]),
                           ("smooth", ["--label-smoothing=0.1"]), ("grows", ["--batch-schedule=2@50%"])):
            with self.subTest(name):
                alone = self.train(f"{name} alone", *MLP, *more, "--workers=1")
                self.assert_same_course(self.train(name, *MLP, *more, *GRID), alone)
        flags = [*MLP, "--width=64", *GRID, "--optimizer=adam"]
        plain = self.train("plain", *flags)
        self.assertEqual(self.train("shard", *flags, "--shard=optimizer").sha, plain.sha)
        shorter = self.train("int8", *flags, "--compress=int8")
        self.assertNotEqual(shorter.sha, plain.sha)
        self.assertLessEqual(abs(shorter.losses[-1] - plain.losses[-1]), 0.1 * plain.losses[-1])


class GoesOn(SpreadCase):
    def test_to_the_same_bits(self):
        self.check_same_bits_when_resumed([*MLP, *GRID, "--optimizer=adam"])

    # The positions' vectors are not cut, and travel in a code beside parts that fill one block of it and a half.
    def test_where_what_is_not_cut_travels_in_a_code(self):
        data, flags = self.write_book(), [*GPT, "--context=64", *GRID, "--compress=int8"]
        whole, again = Run(self.path("whole")), Run(self.path("again"))
        self.call("train", *flags, data, f"--out={whole.folder}")
        self.call("train", *flags, data, "--stop-at=9", f"--out={again.folder}")
        self.resume(again)
        self.assertEqual(again.sha, whole.sha)

    def test_on_any_other_grid(self):
        flags = [*MLP, "--optimizer=adam"]
        alone = self.train("alone", *flags, *ONE)
        stages = ["--workers=2", "--tensor=1", "--pipeline=2", "--pipeline-cut=even"]
        for i, (before, after) in enumerate([(TWO, ONE), (ONE, TWO), (GRID, ["--workers=4", "--tensor=4"]),
                                             ([*GRID, "--shard=optimizer"], TWO), (TWO, stages),
                                             (stages, [*TWO, "--pipeline=1"])]):
            with self.subTest(before=before, after=after):
                run = self.train(f"run {i}", *flags, *before, "--stop-at=11")
                self.resume(run, *after)
                self.assert_same_course(run, alone)

    # Queries, keys and values are one matrix, of which each has three parts.
    def test_with_the_heads_of_others(self):
        data, flags = self.write_book(), [*GPT, "--optimizer=adam", "--lr=0.002"]
        alone = self.path("alone")
        self.call("train", *flags, data, *ONE, f"--out={alone}")
        for i, (before, after) in enumerate([(TWO, ONE), (ONE, GRID)]):
            run = Run(self.path(f"run {i}"))
            self.call("train", *flags, data, *before, "--stop-at=9", f"--out={run.folder}")
            self.resume(run, *after)
            self.assert_same_losses(run, Run(alone))


class Leaves(SpreadCase):
    def test_a_model_like_any(self):
        self.check_model_is_like_any(["--depth=4", "--steps=30"], GRID)

    def test_a_report_of_who_is_with_whom(self):
        run = self.train("run", *MLP, *GRID)
        summary = run.summary
        self.assertEqual(summary["tensor"], 2)
        self.assertEqual(summary["tensor_groups"], "2 ranks compute a model together: ranks 0-1; ranks 2-3")
        self.assertEqual(summary["samples"], 29 * 24 + 16)
        with open(run.path("report.html")) as file:
            self.assertIn(summary["tensor_groups"], file.read())


    # One group exchanges nothing with others: what there is to wait for and to send is between its layers. In a step, an
    # activation of 24 × 256 numbers forward and its gradient backward.
    def test_what_its_layers_exchange(self):
        run = self.train("run", *MLP, "--width=256", *TWO)
        self.assertGreater(run.summary["bytes_sent"], 30 * 2 * 24 * 256 * 4)
        self.assertGreater(run.summary["comm_s"], 0)
        self.assertLess(run.summary["comm_s"], run.summary["train_seconds"])


class BadInput(SpreadCase):
    def test_of_grids(self):
        self.assertIn("3 workers cannot be divided into groups of 2 (pipeline 1 × tensor 2): give a multiple of 2 workers",
                      self.refused_train("--workers=3", "--tensor=2"))
        self.assertIn("2 workers cannot be divided into groups of 4",
                      self.refused_train("--workers=2", "--tensor=4"))
        self.assertIn("batch 1 is smaller than groups 2: each group needs a sample",
                      self.refused_train("--workers=4", "--tensor=2", "--batch=1"))

    def test_of_models(self):
        book = self.write_book()
        self.assertIn("mlp: a width of 15 cannot be divided by tensor = 2",
                      self.refused_train("--workers=2", "--tensor=2", "--width=15"))
        self.assertIn("gpt: heads = 3 cannot be divided by tensor = 2",
                      self.refused("train", "--model=gpt", "--width=48", "--heads=3", book, "--workers=2", "--tensor=2"))
        self.assertIn("lstm has no layers that could be cut over tensor = 2 ranks: only mlp and gpt have",
                      self.refused("train", "--model=lstm", book, "--workers=2", "--tensor=2"))
        for model in "cnn", "resnet18":
            self.assertIn(f"{model} has no layers that could be cut", self.refused(
                "train", f"--model={model}", "--data=synthetic", "--workers=2", "--tensor=2"))

    def test_of_what_does_not_go_with_it(self):
        for flags, why in (
                (["--sync=server"], "part of each large layer, and the servers of sync = server keep whole ones"),
                (["--sync=local"], "sync = local, as it is set, is for whole ones. Train by sync = allreduce"),
                (["--sync=gossip"], "sync = gossip, as it is set, is for whole ones"),
                (["--compress=powersgd"], "compress none, bf16, fp16 or int8 without compress-feedback"),
                (["--compress=dgc"], "compress none, bf16, fp16 or int8 without compress-feedback"),
                (["--shard=gradients"], "with shard none or optimizer"),
                (["--balance"], "balance = true has no effect: tensor is 2"),
                (["--ema=0.9"], "ema = 0.9 has no effect: tensor is 2"),
                (["--then=local"], "tensor = 2 goes on by one way, and then = local is another"),
                (["--on-loss=continue", "--checkpoint-every=never", "--shard=optimizer"],
                 "on-loss = continue goes on from the last checkpoint, and there will be none"),
                (["--precision=fp16"], "none can measure what is faster, or scale a loss, by itself"),
                (["--optimizer=lars"], "takes the norm of each whole tensor"),
                (["--optimizer=lamb"], "Use sgd, adam, adamw, rmsprop or asup"),
                (["--device=cuda"], "asup train has tensor parallelism on CPUs")):
            with self.subTest(flags):
                self.assertIn(why, self.refused_train("--workers=2", "--tensor=2", *flags))


class Faults(SpreadCase):
    def test_a_killed_rank_is_named(self):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, "--steps=1000000", "--eval-every=never", *GRID, f"--out={run.folder}")
        self.wait_for_step(run, 5, process)
        os.kill(self.members()["rank 1"], signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err.strip().splitlines()[-1], r"^asup train: rank 1 .*was killed by signal 9")


if __name__ == "__main__":
    unittest.main()
