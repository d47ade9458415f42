"""Training in 16 bits. Small jobs: processors without such arithmetic are a hundred times slower at it."""

import unittest

from harness import SMALL, Case, Run

FLAGS = ["--workers=2", "--steps=40", "--lr=0.05"]


class Precision(Case):
    def test_trains_nearly_as_in_f32(self):
        plain = self.train("fp32", *FLAGS)
        for precision, *more in ("bf16",), ("fp16", "--loss-scale=1024"):  # with which no step is left out
            with self.subTest(precision):
                run = self.train(precision, *FLAGS, f"--precision={precision}", *more)
                self.assertEqual(run.summary["precision"], precision)
                self.assertNotEqual(run.sha, plain.sha)
                for one, other in zip(run.losses, plain.losses):
                    self.assertAlmostEqual(one, other, delta=0.05 * plain.losses[0])

    def test_in_every_way_of_training(self):
        for name, *flags in (("local", "--sync=local", "--every=4"), ("diloco", "--sync=diloco", "--every=10"),
                             ("gossip", "--sync=gossip"), ("adpsgd", "--sync=adpsgd"),
                             ("server", "--sync=server", "--pace=bsp"), ("asup", "--sync=asup"),
                             ("dgc", "--compress=dgc", "--compress-density=0.1", "--compress-per=worker"),
                             ("powersgd", "--compress=powersgd", "--compress-rank=2"),
                             ("all", "--clip-norm=5", "--accumulate=2", "--ema=0.9")):
            for precision in "bf16", "fp16":
                with self.subTest(name, precision=precision):
                    losses = self.train(f"{name}-{precision}", *FLAGS, f"--precision={precision}", *flags).losses
                    self.assertLess(losses[-1], 0.7 * losses[0])

    def test_a_convolution_with_statistics_of_all_workers(self):
        flags = ["--model=resnet18", "--width=auto", "--synthetic-shape=1x8x8", "--synthetic-samples=24",
                 "--synthetic-test-samples=8", "--batch=8", "--steps=2", "--sync-bn", "--precision=fp16",
                 "--memory-format=channels-last", "--conv-path=native", "--eval-every=never"]
        summary = self.train("whole", "--workers=2", *flags).summary
        self.assertEqual((summary["memory_format"], summary["convolution_path"]), ("channels-last", "native"))
        self.assertLess(summary["final_loss"], 10)

    def test_an_order_of_memory_changes_rounding_alone(self):
        flags = ["--model=cnn", "--width=4", "--synthetic-shape=3x12x12", "--conv-path=native", *FLAGS]
        one = self.train("contiguous", *flags, "--memory-format=contiguous")
        other = self.train("channels-last", *flags, "--memory-format=channels-last")
        self.assertEqual((one.summary["memory_format"], other.summary["memory_format"]),
                         ("contiguous", "channels-last"))
        for a, b in zip(one.losses[:10], other.losses[:10]):
            self.assertAlmostEqual(a, b, delta=1e-3 * one.losses[0])

    # Sixteen million is too much for a loss: steps are left out until it is less, on all workers alike.
    def test_losses_are_scaled_as_far_as_it_goes_also_after_a_stop(self):
        for name, *way in (("allreduce",), ("local", "--sync=local", "--every=4"), ("server", "--sync=server", "--pace=bsp")):
            with self.subTest(name):
                flags = ["--workers=2", "--precision=fp16", "--loss-scale=16777216", "--lr=0.05", *way]
                whole = self.train("whole-" + name, *flags, "--steps=30")
                self.assertGreater(whole.summary["skipped_steps"], 0)
                self.assertLess(whole.losses[-1], whole.losses[0])
                part = self.train("part-" + name, *flags, "--steps=30", "--stop-at=3")
                scales = part.saved["run"]["loss_scales"]
                self.assertEqual(len(scales), 2)
                self.assertLess(scales[0][0], 16777216)
                if name == "allreduce":
                    self.assertEqual(scales[0], scales[1])
                self.call("train", f"--resume={part.folder}")
                self.assertEqual(Run(part.folder).sha, whole.sha)

    def test_a_scale_that_is_far_too_large_is_named(self):
        said = self.call("train", *SMALL, *FLAGS, "--precision=fp16", "--loss-scale=1e15", f"--out={self.path('x')}",
                         status=1).stderr
        self.assertIn("or a smaller loss-scale (it has come to", said)

    def test_goes_on_with_another_number_of_workers(self):
        part = self.train("part", *FLAGS, "--precision=fp16", "--loss-scale=8", "--stop-at=10")
        self.call("train", f"--resume={part.folder}", "--workers=3")
        self.assertLess(part.losses[-1], part.losses[0])
        self.assertEqual(part.saved["run"]["loss_scales"], [[8, 30]] * 3)  # counted from there

    def test_a_resumed_run_may_begin_with_another_scale(self):
        part = self.train("part", *FLAGS, "--precision=fp16", "--stop-at=10")
        self.call("train", f"--resume={part.folder}", "--loss-scale=8")
        self.assertEqual(part.saved["run"]["loss_scales"], [[8, 30]] * 2)

    def test_goes_on_by_another_way(self):
        self.assertLess(self.train("then", *FLAGS, "--precision=fp16", "--then=local", "--at=20").losses[-1], 1)

    def test_an_optimizer_of_our_own_with_channels_last(self):
        run = self.train("optimizers", *FLAGS[:2], "--precision=fp16", "--optimizer=lamb", "--model=cnn", "--width=4",
                         "--synthetic-shape=3x12x12", "--memory-format=channels-last", "--conv-path=native")
        self.assertLess(run.losses[-1], run.losses[0])

    def test_it_is_said_what_is_faster(self):
        said = self.call("train", *SMALL, *FLAGS, "--precision=bf16", f"--out={self.path('run')}").stdout
        self.assertRegex(said, r"computed by \S+ bf16 \(fp32 (\S+× (slower|faster)|no faster)\)")
        said = self.call("train", *SMALL, *FLAGS, "--precision=auto", f"--out={self.path('auto')}").stdout
        self.assertRegex(said, r"computed by \S+( bf16)? \((fp32|bf16) |since this processor does not multiply bf16")

    def test_what_is_refused(self):
        for flags, words in (
                (["--precision=bf61"], "did you mean 'bf16'"),
                (["--precision=fp16", "--non-finite=fatal"], "non-finite = fatal would not"),
                (["--loss-scale=8"], "only with precision = fp16 the loss is scaled"),
                (["--precision=bf16", "--loss-scale=8"], "only with precision = fp16 the loss is scaled"),
                (["--precision=fp16", "--loss-scale=0.5"], "loss-scale")):
            with self.subTest(flags):
                self.assertIn(words, self.call("train", *SMALL, *flags, f"--out={self.path('x')}", status=2).stderr)
        self.train("run", *FLAGS, "--stop-at=5")
        for flag, words in (("--precision=bf16", "precision = fp32, which cannot become bf16"),
                            ("--memory-format=channels-last", "memory-format = auto, which cannot become channels")):
            self.assertIn(words, self.call("train", f"--resume={self.path('run')}", flag, status=2).stderr)


if __name__ == "__main__":
    unittest.main()
