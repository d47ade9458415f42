"""A model whose layers are dealt out to the stages of a pipeline, and cut over the workers of each stage, learns what one
process learns, leaves what any run leaves, and goes on on any other grid."""

import os
import signal
import unittest

from harness import PATIENCE, SMALL, Run
from spread_case import GPT, SpreadCase

SCHEDULES = "gpipe", "1f1b", "interleaved", "zb1p", "zbv"
# Five layers, cut by columns and by rows in turns: between two stages travel parts of activations. Five classes, which two
# do not divide.
DEEP = ["--depth=4", "--synthetic-classes=5", "--steps=30"]
FOUR = ["--workers=4", "--pipeline=2", "--tensor=2", "--pipeline-cut=even", "--microbatches=3"]
EIGHT = ["--workers=8", *FOUR[1:]]


class GridCase(SpreadCase):
    def train_gpt(self, name, *flags):
        self.call("train", *GPT, self.write_book(), *flags, f"--out={self.path(name)}")
        return Run(self.path(name))


class SameCourse(GridCase):
    def test_by_every_schedule(self):
        alone = self.train("one", *DEEP, "--workers=1")
        self.assertLess(alone.losses[-1], 0.8 * alone.losses[0])
        for schedule in SCHEDULES:
            with self.subTest(schedule):
                run = self.train(schedule, *DEEP, *FOUR, f"--pipeline-schedule={schedule}")
                self.assert_same_course(run, alone)
                self.assertEqual(run.summary["parameters"], alone.summary["parameters"])
        self.assert_same_course(self.train("eight", *DEEP, *EIGHT), alone)

    # Of a gpt, the first and the last stage share a matrix, of which each worker has some rows.
    def test_of_a_language_model(self):
        alone = self.train_gpt("one", "--workers=1", "--clip-norm=0.5")
        for schedule in "1f1b", "zb1p", "zbv":
            with self.subTest(schedule):
                run = self.train_gpt(schedule, *FOUR[:-1], "--microbatches=4", "--clip-norm=0.5",
                                     f"--pipeline-schedule={schedule}")
                self.assert_same_losses(run, alone)
                self.assertAlmostEqual(run.summary["test_loss"], alone.summary["test_loss"], 4)
                self.assertTrue(os.path.exists(run.path("generated.json")))

    # Where the cut is measured, workers of a stage time its layers together.
    def test_with_dropout_and_a_measured_cut(self):
        flags = [*FOUR[:3], "--dropout=0.2"]
        run = self.train_gpt("run", *flags)
        stages = run.summary["stages"]
        cut = [int(last) - int(first) + 1 for first, last in
               (each.split()[1].split("-") if "-" in each.split()[1] else 2 * [each.split()[1]]
                for each in stages.split(": ")[1].split("; "))]
        again = self.train_gpt("again", *flags, "--recompute", f"--pipeline-cut={cut[0]},{cut[1]}")
        self.assertEqual(again.losses, run.losses)  # recomputation sees the same
        self.assertEqual(again.sha, run.sha)
        stopped = self.train_gpt("stopped", *flags, f"--pipeline-cut={cut[0]},{cut[1]}", "--stop-at=9")
        self.resume(stopped)
        self.assertEqual(stopped.sha, run.sha)

    # The norm is that of all stages and all parts. 400 samples are 16 batches of 24 and one of 16.
    def test_by_the_norm_of_the_whole_model(self):
        flags = ["--depth=4", "--epochs=2", "--momentum=0", "--lr=0.3"]
        alone, free = self.train("one", *flags, "--workers=1", "--clip-norm=0.1"), self.train("free", *flags)
        self.assertGreater(alone.summary["test_loss"], 1.1 * free.summary["test_loss"])
        self.assert_same_course(self.train("eight", *flags, *EIGHT, "--clip-norm=0.1"), alone)

    def test_with_what_goes_along(self):
        for name, more in ("mixed", ["--augment-mixup=0.4"]), ("smooth", ["--label-smoothing=0.1"]):
            with self.subTest(name):
                alone = self.train(f"{name} alone", *DEEP, *more, "--workers=1")
                self.assert_same_course(self.train(name, *DEEP, *more, *FOUR), alone)
        flags = [*DEEP, "--width=64", *EIGHT, "--optimizer=adam"]
        plain = self.train("plain", *flags)
        self.assertEqual(self.train("shard", *flags, "--shard=optimizer").sha, plain.sha)
        for name, more in (("int8", ["--compress=int8"]), ("bf16", ["--precision=bf16"]),
                           ("both", ["--precision=bf16", "--compress=bf16"])):
            with self.subTest(name):
                run = self.train(name, *flags, *more)
                self.assertNotEqual(run.sha, plain.sha)
                self.assertLessEqual(abs(run.losses[-1] - plain.losses[-1]), 0.1 * plain.losses[-1])


class GoesOn(GridCase):
    def test_to_the_same_bits(self):
        self.check_same_bits_when_resumed([*DEEP, *EIGHT, "--optimizer=adam", "--pipeline-schedule=zb1p"])

    # What is the same in a tensor group, and what two stages have, is so to the bit, and so a checkpoint has all there is.
    def test_of_three_groups(self):
        flags = ["--workers=12", *FOUR[1:-1], "--batch=12", "--algorithm=ring", "--optimizer=adam", "--lr=0.002"]
        whole, again = self.train_gpt("whole", *flags), self.train_gpt("again", *flags, "--stop-at=9")
        self.resume(again)
        self.assertEqual(again.sha, whole.sha)

    def test_on_any_other_grid(self):
        flags = ["--depth=4", "--steps=20", "--optimizer=adam"]
        alone = self.train("alone", *flags, "--workers=1")
        one = ["--workers=1", "--pipeline=1", "--tensor=1"]
        stages = ["--workers=4", "--pipeline=4", "--tensor=1"]
        parts = ["--workers=4", "--pipeline=1", "--tensor=4"]
        for i, (before, after) in enumerate([(FOUR, one), (one, FOUR), (stages, FOUR), (parts, EIGHT), (EIGHT, parts)]):
            with self.subTest(before=before, after=after):
                run = self.train(f"run {i}", *flags, *before, "--stop-at=11")
                self.resume(run, *after)
                self.assert_same_course(run, alone)


class Leaves(GridCase):
    def test_a_model_like_any(self):
        self.check_model_is_like_any(["--depth=4", "--steps=30"], FOUR)

    def test_a_report_of_who_is_with_whom(self):
        run = self.train("run", *DEEP, *EIGHT)
        summary = run.summary
        self.assertEqual(summary["stages"], "2 stages by 1f1b, 3 micro-batches: layers 0-1 on ranks 0, 1, 2, 3; "
                                            "layers 2-4 on ranks 4, 5, 6, 7")
        self.assertEqual(summary["tensor_groups"],
                         "2 ranks compute each layer together: ranks 0-1; ranks 2-3; ranks 4-5; ranks 6-7")
        self.assertEqual(summary["samples"], 29 * 24 + 16)
        with open(run.path("report.html")) as file:
            text = file.read()
        self.assertIn(summary["stages"], text)
        self.assertIn(summary["tensor_groups"], text)


class BadInput(GridCase):
    def test_of_grids(self):
        self.assertIn("6 workers cannot be divided into groups of 4 (pipeline 2 × tensor 2): give a multiple of 4 workers",
                      self.refused_train("--workers=6", "--pipeline=2", "--tensor=2"))
        self.assertIn("batch = 25 cannot be dealt out evenly to 2 groups of 4 workers: give a multiple of 2",
                      self.refused_train("--workers=8", "--pipeline=2", "--tensor=2", "--batch=25"))
        self.assertIn("4 stages of a model of 3 layers",
                      self.refused_train("--workers=8", "--pipeline=4", "--tensor=2", "--depth=2"))

    def test_of_models(self):
        self.assertIn("cnn has no layers that could be cut over tensor = 2 ranks: only mlp and gpt have", self.refused(
            "train", "--model=cnn", "--data=synthetic", "--workers=4", "--pipeline=2", "--tensor=2"))
        self.assertIn("model lstm is no sequence of layers", self.refused(
            "train", "--model=lstm", self.write_book(), "--workers=4", "--pipeline=2", "--tensor=2"))

    def test_of_what_does_not_go_with_it(self):
        for flags, why in (
                (["--sync=server"], "Train by sync = allreduce, or leave tensor out: pipelines go through servers"),
                (["--sync=asup"], "the servers of sync = asup keep whole ones"),
                (["--sync=local"], "sync = local, as it is set, is for whole ones"),
                (["--compress=topk"], "compress none, bf16, fp16 or int8 without compress-feedback"),
                (["--accumulate=2"], "its micro-batches are portions of a batch already: say microbatches"),
                (["--optimizer=lamb"], "takes the norm of each whole tensor"),
                (["--precision=bf16", "--pipeline-schedule=zb1p"], "Use pipeline-schedule = 1f1b"),
                (["--precision=auto"], "none can measure what is faster"),
                (["--on-loss=continue", "--checkpoint-every=never", "--shard=optimizer"],
                 "on-loss = continue goes on from the last checkpoint, and there will be none")):
            with self.subTest(flags):
                self.assertIn(why, self.refused_train("--workers=4", "--pipeline=2", "--tensor=2", *flags))


class Faults(GridCase):
    def test_a_killed_rank_is_named(self):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, "--steps=1000000", "--eval-every=never", *FOUR, f"--out={run.folder}")
        self.wait_for_step(run, 5, process)
        os.kill(self.members()["rank 3"], signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err.strip().splitlines()[-1], r"^asup train: rank 3 .*was killed by signal 9")


if __name__ == "__main__":
    unittest.main()
