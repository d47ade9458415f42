"""The order of samples, with classes spread evenly over batches."""

import os
import unittest

from harness import SMALL, Case

STRATIFIED = ["--sampler=stratified", "--batch=40"]


class Stratified(Case):
    def test_it_is_the_same_for_any_number_of_workers_and_resumes(self):
        one = self.train("one", *STRATIFIED, "--workers=1", "--epochs=3")
        plain = self.train("plain", "--batch=40", "--workers=1", "--epochs=3")
        self.assertNotEqual(one.sha, plain.sha)
        for sync in "allreduce", "server":
            flags = [*STRATIFIED, "--workers=2", "--epochs=3", f"--sync={sync}", "--validation=0.25"]
            whole = self.train("whole-" + sync, *flags)
            parts = self.train("parts-" + sync, *flags, "--stop-at=17")
            self.call("train", f"--resume={parts.folder}")
            self.assertEqual(parts.sha, whole.sha)
        four = self.train("four", *STRATIFIED, "--workers=4", "--epochs=3")
        for a, b in zip(one.losses, four.losses):
            self.assertAlmostEqual(a, b, delta=1e-4)

    # A batch of 10 classes of equal sizes has as many of each: what is left of the noise is that
    # within classes.
    def test_there_is_less_noise_in_gradients(self):
        noise = {}
        for sampler in "shuffled", "stratified":
            run = self.train(sampler, "--workers=4", "--batch=40", "--epochs=6", "--lr=1e-6", "--momentum=0",
                             "--synthetic-noise=0.2", f"--sampler={sampler}")
            noise[sampler] = run.summary["noise_scale"]
        self.assertLess(noise["stratified"], 0.7 * noise["shuffled"])

    def test_what_has_no_classes_is_refused(self):
        with open(self.path("text.txt"), "w") as file:
            file.write("to be or not to be\n" * 400)
        why = self.refused("train", "--data=text:" + self.path("text.txt"), "--model=lstm",
                           "--context=16", "--sampler=stratified", "--out=" + self.path("text"))
        self.assertIn("samples of text have none: leave it out", why)
        why = self.refused("train", f"--data={os.environ['WATCHED_DATA']}", "--model=mlp",
                           "--sampler=stratified", "--out=" + self.path("mine"))
        self.assertIn("watched does not tell: have it override labels()", why)
        why = self.refused("train", *SMALL, "--sampler=random", "--out=" + self.path("no"))
        self.assertIn("stratified", why)
        self.assertFalse(os.path.exists(self.path("no")))


if __name__ == "__main__":
    unittest.main()
