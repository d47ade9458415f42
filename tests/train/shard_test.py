"""Training of which each worker keeps a part only."""

import unittest

from harness import Case, Run

FLAGS = ["--workers=2", "--steps=30", "--optimizer=adam", "--width=64"]
SHARDS = "optimizer", "gradients", "parameters"


class Shard(Case):
    def resume(self, run, *flags):
        self.call("train", f"--resume={run.folder}", *flags)

    def test_gives_the_bits_of_training_without(self):
        for name, flags in (("adam", []), ("clipped", ["--clip-norm=0.05"]), ("lars", ["--optimizer=lars", "--lr=0.5"]),
                            ("lamb", ["--optimizer=lamb", "--lr=0.003"]),
                            ("accumulated", ["--accumulate=3"]),
                            ("batch-norm", ["--model=resnet18", "--width=auto", "--steps=4", "--batch=8"])):
            whole = self.train(f"{name}-whole", *FLAGS, *flags)
            for shard in SHARDS:
                with self.subTest(name, shard=shard):
                    run = self.train(f"{name}-{shard}", *FLAGS, *flags, f"--shard={shard}")
                    self.assertEqual(run.sha, whole.sha)
                    self.assertEqual(run.losses, whole.losses)

    def test_moving_averages_go_with_whole_parameters(self):
        whole, *parts = (self.train(f"ema-{shard}", *FLAGS, "--ema=0.9", f"--shard={shard}")
                         for shard in ("none", "optimizer", "gradients"))
        for run in parts:
            self.assertEqual(run.sha, whole.sha)

    # Training is the same with all of them, so that a run may change from one to the other.
    def test_goes_on_with_any_other_shard_to_the_same_bits(self):
        whole = self.train("whole", *FLAGS)
        for before, after in (("optimizer", "optimizer"), ("gradients", "gradients"), ("none", "gradients"),
                              ("gradients", "optimizer"), ("optimizer", "none"),
                              ("none", "parameters"), ("parameters", "parameters"), ("parameters", "gradients")):
            with self.subTest(before=before, after=after):
                run = self.train(f"{before}-{after}", *FLAGS, f"--shard={before}", "--stop-at=13")
                self.resume(run, f"--shard={after}")
                self.assertEqual(run.sha, whole.sha)

    def test_goes_on_with_another_number_of_workers(self):
        for shard in SHARDS:
            ends = []
            for way in "none", shard:
                run = self.train(f"{shard}-{way}", *FLAGS, f"--shard={way}", "--stop-at=10")
                self.resume(run, "--workers=3", "--steps=20")
                ends.append(run.losses)
            for a, b in zip(*ends, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5 * abs(a))

    def test_another_way_goes_on_with_the_state(self):
        whole, *sharded = (self.train(f"then-{shard}", *FLAGS, f"--shard={shard}", "--then=local", "--at=15", "--every=4")
                           for shard in ("none", "gradients", "parameters"))
        for run in sharded:
            self.assertEqual(run.sha, whole.sha)

    # A few layers are there at a time. Of a last batch of one sample, two workers have none.
    def test_models_of_many_layers(self):
        for name, flags in (("mlp", ["--depth=6", "--width=600", "--steps=6"]),
                            ("portions", ["--workers=3", "--batch=57", "--accumulate=3", "--epochs=1", "--steps=auto"]),
                            ("resnet", ["--model=resnet18", "--width=auto", "--steps=3", "--batch=8", "--buffers=average"])):
            with self.subTest(name):
                whole, parts = (self.train(f"{name}-{shard}", *FLAGS, *flags, f"--shard={shard}")
                                for shard in ("none", "parameters"))
                for a, b in zip(parts.losses, whole.losses, strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-5 * abs(b))

    # Its first and its last layer share a matrix.
    def test_gpt(self):
        text = self.path("text.txt")
        with open(text, "w") as file:
            file.write("".join(f"{i} times {i} is {i * i}; " for i in range(2000)))
        shas = [self.json_of(shard, text)["weights_sha256"] for shard in ("none", "parameters")]
        self.assertEqual(*shas)

    def json_of(self, shard, text):
        folder = self.path(f"gpt-{shard}")
        self.call("train", "--model=gpt", f"--data=text:{text}", "--width=192", "--depth=3", "--heads=2", "--context=24",
                  "--batch=8", "--optimizer=adamw", "--dropout=0.1", "--steps=4", "--workers=2", "--threads=1", "--seed=7",
                  f"--shard={shard}", f"--out={folder}")
        return Run(folder).summary

    def test_half_precision_and_steps_that_are_left_out(self):
        flags = [*FLAGS, "--precision=fp16", "--loss-scale=16777216"]
        whole = self.train("fp16", *flags)
        self.assertGreater(whole.summary.get("skipped_steps", 0), 0)
        for shard in SHARDS:
            run = self.train(f"fp16-{shard}", *flags, f"--shard={shard}")
            self.assertEqual(run.sha, whole.sha)
            self.assertEqual(run.summary.get("skipped_steps"), whole.summary["skipped_steps"])

    def test_what_is_refused(self):
        for flags, words in ((["--shard=everything"], "everything"),
                             (["--shard=gradients", "--compress=int8"], "use shard optimizer"),
                             (["--shard=optimizer", "--compress=dgc", "--optimizer=sgd"], "compress topk"),
                             (["--shard=optimizer", "--sync=local"], "shard"),
                             (["--shard=parameters", "--sync=server"], "shard"),
                             (["--shard=parameters", "--compress=topk"], "use shard optimizer"),
                             (["--shard=parameters", "--ema=0.9"], "Leave ema out"),
                             (["--shard=parameters", "--balance"], "portions")):
            with self.subTest(flags):
                self.assertIn(words, self.refused("train", "--workers=2", *flags))

    def test_codes_go_with_shards_of_the_optimizer(self):
        flags = [*FLAGS, "--width=256", "--compress=int8"]
        self.assertEqual(self.train("coded", *flags).sha, self.train("coded-shards", *flags, "--shard=optimizer").sha)


if __name__ == "__main__":
    unittest.main()
