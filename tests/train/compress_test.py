"""Training with gradients that travel in fewer bytes."""

import json
import os
import re
import shutil
import unittest

from harness import SMALL, Case, Run

WIDE = ["--width=256", "--workers=2", "--lr=0.05"]
OF_WORKERS = "--compress-per=worker"  # not of the host that they share, on which nothing need be left out


class Compress(Case):
    def test_fewer_bytes_and_the_same_training(self):
        plain = self.train("none", *WIDE, "--epochs=6", "--algorithm=ring").summary
        for code, less, *more in (("bf16", 1.8), ("fp16", 1.8), ("int8", 3), ("int4", 5), ("onebit", 10),
                                  ("topk", 5, "--compress-density=0.01", OF_WORKERS),
                                  ("dgc", 5, "--compress-density=0.01", OF_WORKERS),
                                  ("powersgd", 5)):
            with self.subTest(code):
                summary = self.train(code, *WIDE, "--epochs=6", f"--compress={code}", *more).summary
                self.assertGreater(plain["bytes_sent"] / summary["bytes_sent"], less)
                self.assertGreater(summary["test_accuracy"], plain["test_accuracy"] - 0.1)

    def test_gradients_are_clipped_before_they_are_added_up(self):
        for compress in ["dgc", "--compress-density=0.02", OF_WORKERS], ["onebit"]:
            flags = [*WIDE, "--steps=30", "--compress", *compress]
            with self.subTest(flags):
                free = self.train(f"free {compress[0]}", *flags).losses
                clipped = self.train(f"clipped {compress[0]}", *flags, "--clip-norm=0.001").losses
                self.assertLess(free[-1], 0.8 * free[0])
                self.assertGreater(clipped[-1], 0.9 * clipped[0])

    def test_onebit_keeps_a_momentum_where_sgd_has_one(self):
        for name, flags, keeps in (("sgd", [], True), ("plain", ["--momentum=0"], False), ("adamw", ["--optimizer=adamw"], False),
                                   ("shard", ["--shard=optimizer"], False)):
            with self.subTest(name):
                saved = self.train(name, *WIDE, "--compress=onebit", "--steps=5", *flags).saved["tensors"]
                self.assertEqual(any("momentum of hidden.0.weight" in each for each in saved), keeps, list(saved))

    def test_the_fastest_is_chosen_and_stays(self):
        flags = [*SMALL, *WIDE, "--compress=auto:int8,topk", OF_WORKERS, f"--out={self.path('run')}"]
        said = self.call("train", *flags, "--steps=20").stdout
        chosen = re.search(r"compress (\w+): an exchange of 4 MB at most takes none \S+ ms, bf16 \S+ ms, int8 \S+ ms, "
                           r"topk \S+ ms", said)
        self.assertTrue(chosen, said)
        self.assertRegex(self.observed(), f"^compress {chosen[1]} by auto:int8,topk .* of 2 workers; order")
        said = self.call("train", f"--resume={self.path('run')}", "--steps=40").stdout
        self.assertNotIn("an exchange of 4 MB", said)
        self.assertIn(f"compress {chosen[1]}, as measured before", said)
        self.assertRegex(self.observed(), f"^compress {chosen[1]} by auto:int8,topk .* of 2 workers; order")
        for steps, code in (50, "auto"), (60, "int8"), (70, "none"):  # another choice, or none
            self.call("train", f"--resume={self.path('run')}", f"--steps={steps}", f"--compress={code}",
                      "--compress-per=host")
        self.assertNotIn("compress", self.observed())

    def observed(self):
        with open(Run(self.path("run")).path("choices.json")) as file:
            return json.load(file)["observed"]

    def test_goes_on_from_a_checkpoint_to_the_same_bits(self):
        for flags in (["--compress=int8"], ["--compress=onebit"], ["--compress=int8", "--compress-feedback=on"],
                      ["--compress=dgc", "--compress-density=0.02", "--compress-warmup=30", OF_WORKERS],
                      ["--compress=powersgd", "--compress-rank=2", "--optimizer=adamw", "--lr=0.001"]):
            with self.subTest(flags):
                name = "-".join(flags).replace("=", "")
                whole = self.train("whole" + name, *WIDE, "--steps=50", *flags)
                self.train("part" + name, *WIDE, "--steps=20", *flags)
                self.call("train", f"--resume={self.path('part' + name)}", "--steps=50")
                self.assertEqual(whole.sha, Run(self.path("part" + name)).sha)

    def test_goes_on_with_another_number_of_workers(self):
        for code, *more in ["onebit"], ["dgc", OF_WORKERS], ["powersgd"]:
            with self.subTest(code):
                part = self.train(code, *WIDE, f"--compress={code}", *more, "--steps=20")
                self.call("train", f"--resume={part.folder}", "--steps=50", "--workers=3")
                self.assertGreater(part.summary["test_accuracy"], 0.8)
                usual = ["--compress-per=host"] if more else []
                said = self.call("train", f"--resume={part.folder}", "--steps=60", "--compress=none", *usual)
                self.assertRegex(said.stderr, r"what 3 workers have kept .* a mean of norm [\d.e+]+, is lost")
                self.assertGreater(part.summary["test_accuracy"], 0.8)

    # Of more workers those that were there have it, of fewer all: its mean stays.
    def test_what_is_kept_goes_on_when_workers_come_and_go(self):
        run = self.train("run", *WIDE, "--compress=topk", OF_WORKERS, "--compress-density=0.005",
                         "--compress-warmup=0", "--steps=20")
        norms = set()
        for workers in 3, 1:
            shutil.copytree(run.folder, self.path(str(workers)))
            said = self.call("train", f"--resume={self.path(str(workers))}", "--steps=30", f"--workers={workers}",
                             ASUP_LOG_LEVEL="info").stderr
            told = re.search(rf"what 2 workers have kept for later exchanges, a mean of norm (\S+), goes on with "
                             rf"{workers}", said)
            self.assertTrue(told, said)
            norms.add(float(told[1]))
        self.assertEqual(len(norms), 1)
        self.assertGreater(norms.pop(), 0.01)

    def test_what_is_kept_is_applied_before_another_way(self):
        flags = [*WIDE, "--compress=topk", OF_WORKERS, "--compress-density=0.005", "--compress-warmup=0",
                 "--then=local", "--at=20", "--steps=40", "--checkpoint-every=20", "--keep-checkpoints=9"]
        said = self.call("train", *SMALL, *flags, f"--out={self.path('whole')}", ASUP_LOG_LEVEL="info").stderr
        self.assertRegex(said, r"what compress has kept of gradients, of norm [\d.e+]+, goes into the model")
        whole = Run(self.path("whole"))
        self.assertGreater(whole.summary["test_accuracy"], 0.8)
        # Also by who goes on from the checkpoint at the change.
        shutil.copytree(whole.folder, self.path("part"))
        shutil.rmtree(Run(self.path("part")).checkpoints[-1])
        os.remove(self.path("part/summary.json"))
        said = self.call("train", f"--resume={self.path('part')}", ASUP_LOG_LEVEL="info").stderr
        self.assertNotIn("goes into the model", said)
        self.assertEqual(Run(self.path("part")).sha, whole.sha)

    def test_on_one_host_nothing_is_left_out(self):
        plain = self.train("plain", *WIDE, "--steps=20", "--clip-norm=0.5")
        done = self.call("train", *SMALL, *WIDE, "--steps=20", "--clip-norm=0.5", "--compress=dgc",
                         f"--out={self.path('dgc')}")
        self.assertIn("compress dgc: all workers share this host, so gradients are summed whole", done.stdout)
        self.assertEqual(Run(self.path("dgc")).sha, plain.sha)

    def test_what_is_refused(self):
        for flags, words in (
                (["--compress=int9"], "int9"),
                (["--compress=onebit", "--compress-feedback=off"], "does not train without"),
                (["--compress-feedback=on"], "for what is lost by compress"),
                (["--compress=dgc", "--compress-feedback=off"], "does not train without"),
                (["--compress=dgc", "--optimizer=adam"], "compress topk"),
                (["--compress=auto:int9"], "auto:int8,dgc"),
                (["--compress=auto:dgc", "--optimizer=adam"], "compress topk"),
                (["--compress=auto", "--compress-density=0.01"], "for compress topk and dgc"),
                (["--compress=topk", "--compress-density=0"], "compress-density"),
                (["--compress=int8", "--compress-density=0.01"], "for compress topk and dgc"),
                (["--compress=int8", "--compress-warmup=7"], "for compress topk and dgc"),
                (["--compress=int8", OF_WORKERS], "for compress topk and dgc"),
                (["--compress=powersgd", "--compress-rank=0"], "compress-rank"),
                (["--compress=powersgd", "--compress-feedback=off"], "does not train without"),
                (["--compress=int8", "--compress-rank=2"], "for compress powersgd"),
                (["--sync=local", "--compress=int8"], "compress")):
            with self.subTest(flags):
                self.assertIn(words, self.refused("train", "--workers=2", *flags))


if __name__ == "__main__":
    unittest.main()
