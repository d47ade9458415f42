"""Training through servers where gradients and weights travel in fewer bytes."""

import unittest

from harness import Case, Run

WIDE = ["--width=256", "--workers=2", "--lr=0.05", "--sync=server"]


class CompressOnServers(Case):
    def test_fewer_bytes_and_the_same_training(self):
        plain = self.train("none", *WIDE, "--servers=2", "--epochs=6").summary
        for code, less, *more in ("bf16", 1.8), ("int8", 3), ("int4", 4), ("onebit", 6, "--lr=0.02"):
            with self.subTest(code):
                summary = self.train(code, *WIDE, "--servers=2", "--epochs=6", f"--compress={code}", *more).summary
                self.assertGreater(plain["bytes_sent"] / summary["bytes_sent"], less)
                self.assertGreater(summary["test_accuracy"], plain["test_accuracy"] - 0.1)

    def test_every_pace(self):
        for pace in (["--pace=ssp", "--staleness=2"], ["--pace=asp", "--compensation=0.04"],
                     ["--pace=kasync", "--gather=2"], ["--pace=bsp", "--backup=1"], ["--sync=asup", "--keep-servers"]):
            with self.subTest(pace):
                run = self.train("-".join(pace).replace("=", ""), *WIDE, *pace, "--epochs=4", "--compress=int8",
                                 "--clip-norm=5")
                self.assertLess(sum(run.losses[-10:]), 0.8 * sum(run.losses[:10]))
                self.assertTrue(run.summary["finished"])

    def test_goes_on_from_a_checkpoint_to_the_same_bits(self):
        """Also where a test, and a sync point of the whole run, are between."""
        for flags in (["--compress=int8"], ["--compress=onebit", "--optimizer=adamw", "--lr=0.001"],
                      ["--compress=int8", "--compress-feedback=on", "--workers=3"]):
            with self.subTest(flags):
                name = "-".join(flags).replace("=", "")
                whole = self.train("whole" + name, *WIDE, "--steps=40", "--eval-every=13", *flags)
                part = self.train("part" + name, *WIDE, "--steps=20", *flags)
                self.call("train", f"--resume={part.folder}", "--steps=40")
                self.assertEqual(whole.sha, part.sha)

    def test_goes_on_in_other_ways(self):
        part = self.train("part", *WIDE, "--compress=onebit", "--steps=20")
        for more in (["--steps=40", "--workers=3", "--servers=2"], ["--steps=50", "--compress=int8"],
                     ["--steps=60", "--compress=none"], ["--steps=70", "--compress=int4"],
                     ["--steps=80", "--sync=allreduce", "--compress=int8"]):
            with self.subTest(more):
                self.call("train", f"--resume={part.folder}", *more)
                self.assertGreater(part.summary["test_accuracy"], 0.8)

    def test_other_workers_begin_with_the_weights_that_servers_have(self):
        """What a code has told the workers of before was of those workers."""
        part = self.train("part", *WIDE, "--compress=int8", "--epochs=6")
        before = part.losses
        self.call("train", f"--resume={part.folder}", "--epochs=7", "--workers=4")
        first = part.losses[len(before)]
        self.assertLess(first, 1.5 * max(before[-5:]))

    def test_switches_to_another_way_with_what_the_servers_have(self):
        run = self.train("then", *WIDE, "--compress=int8", "--then=allreduce", "--at=20", "--steps=40")
        self.assertGreater(run.summary["test_accuracy"], 0.8)

    def test_what_is_refused(self):
        for flags, words in (
                (["--compress=auto"], "say bf16, fp16, int8, int4 or onebit"),
                (["--compress=dgc"], "is for sync = allreduce"),
                (["--compress=powersgd"], "is for sync = allreduce"),
                (["--compress=int8", "--merge=mean"], "models are exchanged now and then"),
                (["--compress=onebit", "--compress-feedback=off"], "does not train without"),
                (["--compress-feedback=on"], "for what is lost by compress"),
                (["--compress=onebit", "--backup=1"], "late gradients are dropped"),
                (["--compress=int8", "--compress-density=0.01"], "compress-density")):
            with self.subTest(flags):
                self.assertIn(words, self.refused("train", "--sync=server", "--workers=2", *flags))


if __name__ == "__main__":
    unittest.main()
