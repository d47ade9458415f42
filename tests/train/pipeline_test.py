"""A model whose layers are spread over workers learns what one process learns, leaves what any run leaves, and goes
on on any other grid."""

import json
import os
import signal
import unittest

from harness import PATIENCE, SMALL, Run
from spread_case import GPT, SpreadCase

SCHEDULES = "gpipe", "1f1b", "interleaved", "zb1p", "zbv"
# Five layers that learn, so that two workers can have two stages each. What was measured decides nothing.
DEEP = ["--depth=4", "--steps=30"]
GRID = ["--workers=4", "--pipeline=2", "--pipeline-cut=even", "--microbatches=3"]


class SameCourse(SpreadCase):
    def test_by_every_schedule(self):
        alone = self.train("one", *DEEP, "--workers=1")
        self.assertLess(alone.losses[-1], 0.8 * alone.losses[0])
        for schedule in SCHEDULES:
            with self.subTest(schedule):
                run = self.train(schedule, *DEEP, *GRID, f"--pipeline-schedule={schedule}")
                self.assert_same_course(run, alone)

    # 400 samples are 16 batches of 24 and one of 16, of which two groups have 8 each; of 50, the last batch
    # of 8 has two, and some groups none.
    def test_of_batches_that_are_shorter(self):
        flags = ["--depth=4", "--epochs=2", "--momentum=0"]
        alone = self.train("one", *flags, "--workers=1")
        self.assertEqual(alone.rows[16]["samples"], 16)
        self.assert_same_course(self.train("two", *flags, *GRID), alone)
        few = ["--depth=2", "--epochs=2", "--batch=8", "--synthetic-samples=49"]
        alone = self.train("few one", *few, "--workers=1")
        self.assert_same_course(
            self.train("few", *few, "--workers=4", "--pipeline=2", "--pipeline-schedule=zb1p"), alone)

    def test_by_the_norm_of_all_stages(self):
        flags = [*DEEP, "--momentum=0", "--lr=0.3", "--clip-norm=0.1"]
        alone, free = self.train("one", *flags, "--workers=1"), self.train("free", *flags[:-1])
        self.assertGreater(alone.summary["test_loss"], 1.1 * free.summary["test_loss"])
        self.assert_same_course(self.train("two", *flags, *GRID), alone)

    # The first and the last stage of a gpt share a matrix; only its matrices decay.
    def test_of_a_language_model(self):
        data = self.write_book()

        def train(name, *flags):
            self.call("train", *GPT, data, *flags, f"--out={self.path(name)}")
            return Run(self.path(name))

        alone = train("one", "--workers=1", "--clip-norm=0.5")
        for schedule in SCHEDULES:
            with self.subTest(schedule):
                run = train(schedule, "--workers=4", "--pipeline=2", "--clip-norm=0.5", "--microbatches=4",
                            f"--pipeline-schedule={schedule}")
                self.assert_same_losses(run, alone)
                self.assertAlmostEqual(run.summary["test_loss"], alone.summary["test_loss"], 2)
                self.assertTrue(os.path.exists(run.path("generated.json")))
        dropout = ["--workers=2", "--pipeline=2", "--pipeline-cut=even", "--dropout=0.2"]
        once, again = train("dropout", *dropout, "--recompute"), train("dropout again", *dropout)
        self.assertEqual(once.losses, again.losses)  # recomputation sees the same
        self.assertEqual(once.sha, again.sha)

    # At a rate at which it does not matter which ReLU rounding switches.
    def test_of_convolutions(self):
        flags = ["--model=cnn", "--width=4", "--steps=20", "--lr=0.001"]
        alone = self.train("one", *flags, "--workers=1")
        for schedule in "1f1b", "zb1p":
            self.assert_same_course(self.train(schedule, *flags, *GRID, f"--pipeline-schedule={schedule}"),
                                    alone, within=1e-3)

    # BatchNorm's statistics are a micro-batch's, as they are a portion's.
    def test_of_batch_norm(self):
        flags = ["--model=resnet18", "--width=auto", "--synthetic-shape=3x8x8", "--synthetic-samples=36",
                 "--batch=12", "--epochs=2", "--lr=0.00005", "--conv-path=onednn"]
        portions = self.train("portions", *flags, "--workers=1", "--accumulate=3")
        run = self.train("run", *flags, "--workers=2", "--pipeline=2", "--pipeline-cut=even", "--microbatches=3")
        self.assert_same_course(run, portions, within=1e-3)

    def test_with_what_goes_along(self):
        flags = [*DEEP, "--optimizer=adam"]
        plain = self.train("plain", *flags, *GRID)
        self.assertEqual(self.train("shard", *flags, *GRID, "--shard=optimizer").sha, plain.sha)
        self.assertEqual(self.train("recompute", *flags, *GRID, "--recompute").sha, plain.sha)
        self.assertEqual(self.train("cut", *flags, *GRID, "--pipeline-cut=1,4").losses, plain.losses)
        for name, more in ("bf16", ["--precision=bf16"]), ("int8", ["--compress=int8"]):
            with self.subTest(name):
                run = self.train(name, *flags, *GRID, *more)
                self.assertNotEqual(run.sha, plain.sha)
                self.assertLessEqual(abs(run.losses[-1] - plain.losses[-1]), 0.1 * plain.losses[-1])


class GoesOn(SpreadCase):
    def test_to_the_same_bits(self):
        for schedule in "1f1b", "zbv":
            flags = [*DEEP, "--optimizer=adam", "--workers=4", "--pipeline=2", f"--pipeline-schedule={schedule}"]
            self.check_same_bits_when_resumed(flags, schedule)

    def test_on_any_other_grid(self):
        flags = ["--depth=4", "--steps=20", "--optimizer=adam"]
        alone = self.train("alone", *flags, "--workers=1")
        two, four = ["--workers=2", "--pipeline=2"], ["--workers=4", "--pipeline=4", "--pipeline-schedule=zb1p"]
        data, one = ["--workers=2", "--pipeline=1"], ["--workers=1", "--pipeline=1"]
        for i, (before, after) in enumerate(
                [(two, one), (one, two), (four, data), (data, GRID), (GRID, four), (four, two)]):
            with self.subTest(before=before, after=after):
                run = self.train(f"run {i}", *flags, *before, "--stop-at=11")
                self.resume(run, *after)
                self.assert_same_course(run, alone)

    # Statistics of BatchNorm are of the stage that has it; of one micro-batch, they are the batch's.
    def test_with_statistics_on_another_grid(self):
        flags = ["--model=resnet18", "--width=auto", "--synthetic-shape=3x8x8", "--synthetic-samples=24",
                 "--batch=12", "--steps=4", "--lr=0.00005", "--conv-path=onednn"]
        alone, two, four = ([f"--workers={stages}", f"--pipeline={stages}", *more] for stages, more in (
            (1, []), (2, ["--microbatches=1"]), (4, ["--microbatches=1", "--pipeline-cut=even"])))
        whole = self.train("whole", *flags, *alone)
        for i, (before, after) in enumerate([(alone, two), (two, four), (four, alone)]):
            with self.subTest(before=before, after=after):
                run = self.train(f"run {i}", *flags, *before, "--stop-at=2")
                self.resume(run, *after)
                self.assert_same_course(run, whole, within=1e-3)


class Leaves(SpreadCase):
    def test_a_model_like_any(self):
        self.check_model_is_like_any(DEEP, GRID)

    def test_a_report_of_stages_and_bubble(self):
        run = self.train("run", *DEEP, *GRID)
        summary = run.summary
        self.assertEqual(summary["pipeline"], 2)
        self.assertEqual(summary["pipeline_schedule"], "1f1b")
        self.assertEqual(summary["microbatches"], 3)
        self.assertEqual(summary["stages"],
                         "2 stages by 1f1b, 3 micro-batches: layers 0-1 on ranks 0, 1; layers 2-4 on ranks 2, 3")
        self.assertEqual(summary["samples"], 29 * 24 + 16)
        self.assertGreater(summary["bubble"], 0)
        self.assertLess(summary["bubble"], 1)
        with open(run.path("report.html")) as file:
            self.assertIn(summary["stages"], file.read())
        self.assertRegex(self.call("report", run.folder).stdout, r"bubble +\d+\.\d % of a step")

    def test_stages_that_were_measured_and_are_kept(self):
        run = self.train("run", *DEEP, "--pipeline=2", "--stop-at=10")
        with open(run.path("choices.json")) as file:
            stages = json.load(file)["stages"]
        self.assertEqual(len(stages), 2)
        self.assertEqual(sum(stages), 5)
        with open(run.path("layers.json")) as file:
            layers = json.load(file)
        self.assertEqual(len(layers["layers"]), 5)
        self.assertIn("bandwidth", layers["links"][0])
        for layer in layers["layers"]:
            self.assertTrue(all(layer[key] > 0 for key in ("forward", "backward", "parameters", "activations",
                                                           "output")), layer)
        plan = self.call("plan", "pipeline", "1f1b", "--stages=2", "--microbatches=8", f"--cut={run.folder}").stdout
        self.assertIn("a step takes", plan)
        self.assertIn(f"stage 1 on rank 1", plan)
        before = run.summary["stages"]
        self.resume(run)
        self.assertEqual(run.summary["stages"], before)
        with open(run.path("layers.json")) as file:
            self.assertEqual(json.load(file), layers)


# What layers take in memory does not depend on the machine.
class Memory(SpreadCase):
    FLAGS = ["--depth=4", "--steps=2", "--optimizer=adam", "--workers=2", "--pipeline=2", "--microbatches=4"]

    def sizes(self, run):
        with open(run.path("layers.json")) as file:
            layers = json.load(file)["layers"]
        return [layer["parameters"] for layer in layers], [layer["activations"] for layer in layers]

    # By 1f1b the first of two stages holds two micro-batches.
    def test_stages_fit_it(self):
        parameters, activations = self.sizes(self.train("free", *self.FLAGS))
        need = {cut: max(sum(parameters[:cut]) + 2 * sum(activations[:cut]),
                         sum(parameters[cut:]) + sum(activations[cut:])) for cut in range(1, 5)}
        cut, least = min(need.items(), key=lambda item: item[1])
        self.assertLess(least, min(bytes for at, bytes in need.items() if at != cut))
        run = self.train("fits", *self.FLAGS, f"--worker-memory={int(least)}")
        with open(run.path("choices.json")) as file:
            self.assertEqual(json.load(file)["stages"], [cut, 5 - cut])
        error = self.refused_train(*self.FLAGS, f"--worker-memory={int(least) - 1}")
        self.assertRegex(error, rf"worker-memory = {int(least) - 1}: layer .* fits? .*\d kB.*\d kB.*more memory, or "
                                r"smaller micro-batches")

    # Adam keeps two numbers for each weight beside the weight and its gradient, SGD without momentum none.
    def test_counts_the_state_of_the_optimizer(self):
        adam, _ = self.sizes(self.train("adam", *self.FLAGS))
        sgd, _ = self.sizes(self.train("sgd", *self.FLAGS, "--optimizer=sgd", "--momentum=0"))
        self.assertEqual(adam, [2 * bytes for bytes in sgd])
        parts, _ = self.sizes(self.train("parts", *self.FLAGS, "--workers=4", "--shard=optimizer"))
        self.assertEqual(parts, [1.5 * bytes for bytes in sgd])

    def test_what_it_does_not_go_with(self):
        self.assertIn("worker-memory = 1G has no effect: pipeline is 1", self.refused_train("--worker-memory=1G"))
        self.assertIn("worker-memory = 1G is what stages are to fit that are cut by measure, and pipeline-cut = even",
                      self.refused_train("--pipeline=2", "--worker-memory=1G", "--pipeline-cut=even"))
        self.assertIn("a size like 512M or 4G", self.refused_train("--pipeline=2", "--worker-memory=much"))

    def test_plans_of_runs_without_stages(self):
        run = self.train("alone", "--steps=1", "--workers=1")
        self.assertIn("the run has not measured its layers", self.refused(
            "plan", "pipeline", "1f1b", "--stages=2", "--microbatches=8", f"--cut={run.folder}"))


# Each layer takes longer than it does by itself by far, and from a third of the run on five times that on one of
# the workers.
class Rebalance(SpreadCase):
    FLAGS = ["--depth=5", "--steps=24", "--checkpoint-every=4", "--log-every=1"]
    SLOW = "layer_ms=30 slow=1:5:0.34:1"

    def test_a_slow_worker_gets_fewer_layers(self):
        alone = self.train("alone", *self.FLAGS, "--workers=1")
        two = [*self.FLAGS, "--workers=2", "--pipeline=2", "--microbatches=2"]
        done = self.call("train", *SMALL, *two, "--rebalance", "--stop-at=22", f"--out={self.path('run')}",
                         ASUP_INJECTED_SLOWNESS=self.SLOW)
        said = [line for line in (done.stdout + done.stderr).splitlines() if "stages are cut again" in line]
        self.assertEqual(len(said), 1, done.stdout + done.stderr)
        self.assertIn("after step 16: of 5, 1 layers in place of 3, 3, since a micro-batch takes", said[0])
        run = Run(self.path("run"))
        self.assert_stages(run, [5, 1])
        self.resume(run)
        self.assert_stages(run, [5, 1])
        self.assert_same_course(run, alone)

    def test_only_where_it_is_wanted(self):
        two = [*self.FLAGS, "--workers=2", "--pipeline=2", "--microbatches=2"]
        self.assert_stages(self.train("run", *two, ASUP_INJECTED_SLOWNESS=self.SLOW), [3, 3])

    def assert_stages(self, run, stages):
        with open(run.path("choices.json")) as file:
            self.assertEqual(json.load(file)["stages"], stages)
        cut = stages[0]
        self.assertIn(f"layers 0-{cut - 1} on rank 0; layer", run.summary["stages"])

    def test_what_it_does_not_go_with(self):
        for flags, why in (
                (["--pipeline=1"], "rebalance = true has no effect: pipeline is 1"),
                (["--pipeline=2", "--pipeline-cut=even"], "pipeline-cut = even says where they end"),
                (["--pipeline=2", "--checkpoint-every=never"], "checkpoint-every = never makes none"),
                (["--pipeline=2", "--sync=server"], "by sync = server a slow group takes fewer samples")):
            with self.subTest(flags):
                self.assertIn(why, self.refused_train("--rebalance", *flags))


class BadInput(SpreadCase):
    def test_of_grids(self):
        self.assertIn("3 workers cannot be divided into groups of 2 (pipeline 2 × tensor 1): give a multiple of 2 workers",
                      self.refused_train("--workers=3", "--pipeline=2"))
        self.assertIn("2 workers cannot be divided into groups of 4",
                      self.refused_train("--workers=2", "--pipeline=4"))
        self.assertIn("4 stages of a model of 3 layers: each stage has one at least. Lower pipeline",
                      self.refused_train("--workers=4", "--pipeline=4", "--depth=2"))
        self.assertIn("microbatches = 5 do not divide a group's part of a batch, which has 12 samples (batch 24 / 2 "
                      "groups): give one of its divisors, such as 4",
                      self.refused_train("--workers=4", "--pipeline=2", "--microbatches=5"))
        self.assertIn("batch = 25 cannot be dealt out evenly to 2 groups",
                      self.refused_train("--workers=4", "--pipeline=2", "--batch=25"))
        self.assertIn("1f1b gives each rank one stage of the model, not 2",
                      self.refused_train("--workers=2", "--pipeline=2", "--pipeline-chunks=2"))

    def test_of_cuts(self):
        self.assertIn("pipeline-cut = 'half' is not auto, even, or how many layers each stage has, like 4,5,3",
                      self.refused_train("--pipeline=2", "--pipeline-cut=half"))
        self.assertIn("pipeline-cut = 1,1,1 has layers for 3 stages, and there are 2",
                      self.refused_train("--pipeline=2", "--pipeline-cut=1,1,1"))
        self.assertIn("pipeline-cut = 4,4 is of 8 layers, and the model has 3",
                      self.refused_train("--pipeline=2", "--pipeline-cut=4,4", "--depth=2"))

    def test_of_what_does_not_go_with_it(self):
        for flags, why in (
                (["--sync=server", "--merge=mean"],
                 "sync = server, as it is set, is for whole ones. Train by sync = allreduce"),
                (["--sync=local"], "sync = local, as it is set, is for whole ones"),
                (["--compress=topk"], "compress none, bf16, fp16 or int8 without compress-feedback"),
                (["--compress=int4"], "compress none, bf16, fp16 or int8 without compress-feedback"),
                (["--compress=auto"], "compress none, bf16, fp16 or int8 without compress-feedback"),
                (["--shard=gradients"], "with shard none or optimizer"),
                (["--balance"], "balance = true has no effect: pipeline is 2"),
                (["--accumulate=2"], "accumulate = 2 has no effect: pipeline is 2, and its micro-batches"),
                (["--sync-bn"], "sync-bn = true has no effect: pipeline is 2"),
                (["--ema=0.9"], "ema = 0.9 "),
                (["--then=local"], "then = local"),
                (["--batch-schedule=2@50%"], "batch-schedule = 2@50% has no effect: pipeline is 2"),
                (["--on-loss=continue", "--checkpoint-every=never", "--shard=optimizer"],
                 "on-loss = continue goes on from the last checkpoint, and there will be none"),
                (["--precision=fp16"], "use precision = bf16"),
                (["--precision=bf16", "--pipeline-schedule=zb1p"], "Use pipeline-schedule = 1f1b"),
                (["--device=cuda"], "asup train has pipelines on CPUs")):
            with self.subTest(flags):
                self.assertIn(why, self.refused_train("--workers=2", "--pipeline=2", *flags))
        self.assertIn("microbatches = 4 has no effect: pipeline is 1", self.refused_train("--microbatches=4"))
        self.assertIn("recompute = true has no effect: pipeline is 1", self.refused_train("--recompute"))

    def test_of_models_that_are_no_sequence(self):
        book = self.write("book.txt", "a text of some words. " * 99)
        self.assertIn("model lstm is no sequence of layers",
                      self.refused("train", "--model=lstm", f"--data=text:{book}", "--pipeline=2"))


class Faults(SpreadCase):
    FLAGS = ["--steps=1000000", "--workers=4", "--pipeline=2", "--eval-every=never"]

    def start_endless(self, *flags):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, *self.FLAGS, *flags, f"--out={run.folder}")
        self.wait_for_step(run, 5, process)
        return run, process

    def test_a_killed_stage_is_named(self):
        _, process = self.start_endless()
        os.kill(self.members()["rank 2"], signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err.strip().splitlines()[-1], r"^asup train: rank 2 .*was killed by signal 9")

    def test_the_run_is_started_again(self):
        flags = [*SMALL, "--depth=3", "--steps=3000", "--checkpoint-every=100", "--log-every=10", "--workers=2",
                 "--pipeline=2", "--pipeline-cut=even"]
        whole = self.train("whole", *flags)
        run = Run(self.path("run"))
        process = self.start("train", *flags, "--restarts=1", f"--out={run.folder}")
        self.wait_for_step(run, 250, process)
        os.kill(self.members()["rank 1"], signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertRegex(out, r"resumed after step [1-9]\d*00")
        self.assertEqual(run.sha, whole.sha)


if __name__ == "__main__":
    unittest.main()
