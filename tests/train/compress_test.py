"""Training with gradients that travel in fewer bytes."""

import json
import re
import unittest

from harness import SMALL, Case, Run

WIDE = ["--width=256", "--workers=2", "--lr=0.05"]


class Compress(Case):
    def test_fewer_bytes_and_the_same_training(self):
        plain = self.train("none", *WIDE, "--epochs=6", "--algorithm=ring").summary
        for code, less, *more in (("bf16", 1.8), ("fp16", 1.8), ("int8", 3), ("int4", 5), ("onebit", 10),
                                  ("topk", 5, "--compress-density=0.01"), ("dgc", 5, "--compress-density=0.01"),
                                  ("powersgd", 5)):
            with self.subTest(code):
                summary = self.train(code, *WIDE, "--epochs=6", f"--compress={code}", *more).summary
                self.assertGreater(plain["bytes_sent"] / summary["bytes_sent"], less)
                self.assertGreater(summary["test_accuracy"], plain["test_accuracy"] - 0.1)

    def test_gradients_are_clipped_before_they_are_added_up(self):
        flags = [*WIDE, "--compress=dgc", "--compress-density=0.02", "--steps=30"]
        free = self.train("free", *flags).losses
        clipped = self.train("clipped", *flags, "--clip-norm=0.001").losses
        self.assertLess(free[-1], 0.8 * free[0])
        self.assertGreater(clipped[-1], 0.9 * clipped[0])

    def test_the_fastest_is_chosen_and_stays(self):
        flags = [*SMALL, *WIDE, "--compress=auto:int8,topk", f"--out={self.path('run')}"]
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
            self.call("train", f"--resume={self.path('run')}", f"--steps={steps}", f"--compress={code}")
        self.assertNotIn("compress", self.observed())

    def observed(self):
        with open(Run(self.path("run")).path("choices.json")) as file:
            return json.load(file)["observed"]

    def test_goes_on_from_a_checkpoint_to_the_same_bits(self):
        for flags in (["--compress=int8"], ["--compress=onebit"], ["--compress=int8", "--compress-feedback=on"],
                      ["--compress=dgc", "--compress-density=0.02", "--compress-warmup=30"],
                      ["--compress=powersgd", "--compress-rank=2", "--optimizer=adamw", "--lr=0.001"]):
            with self.subTest(flags):
                name = "-".join(flags).replace("=", "")
                whole = self.train("whole" + name, *WIDE, "--steps=50", *flags)
                self.train("part" + name, *WIDE, "--steps=20", *flags)
                self.call("train", f"--resume={self.path('part' + name)}", "--steps=50")
                self.assertEqual(whole.sha, Run(self.path("part" + name)).sha)

    def test_goes_on_with_another_number_of_workers(self):
        for code in "onebit", "dgc", "powersgd":
            with self.subTest(code):
                part = self.train(code, *WIDE, f"--compress={code}", "--steps=20")
                self.call("train", f"--resume={part.folder}", "--steps=50", "--workers=3")
                self.assertGreater(part.summary["test_accuracy"], 0.8)
                self.call("train", f"--resume={part.folder}", "--steps=60", "--compress=none")
                self.assertGreater(part.summary["test_accuracy"], 0.8)

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
                (["--compress=powersgd", "--compress-rank=0"], "compress-rank"),
                (["--compress=powersgd", "--compress-feedback=off"], "does not train without"),
                (["--compress=int8", "--compress-rank=2"], "for compress powersgd"),
                (["--sync=local", "--compress=int8"], "compress")):
            with self.subTest(flags):
                self.assertIn(words, self.refused("train", "--workers=2", *flags))


if __name__ == "__main__":
    unittest.main()
