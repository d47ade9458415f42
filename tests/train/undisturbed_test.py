"""Where workers step on their own: tests, checkpoints and interruptions change no weights."""

import unittest

from harness import Case, Run
from local_test import WAYS


class Undisturbed(Case):
    def test_tests_and_checkpoints_change_no_weights(self):
        for name, flags in WAYS.items():
            with self.subTest(way=name):
                flags = [*flags, "--workers=3", "--steps=40", "--optimizer=adam", "--lr=0.003"]
                alone = self.train(f"{name}-alone", *flags, "--eval-every=never",
                                   "--checkpoint-every=never")
                often = self.train(f"{name}-often", *flags, "--eval-every=3",
                                   "--checkpoint-every=4")
                tests = [row["step"] for row in often.rows if "test_accuracy" in row]
                self.assertEqual(tests, [*range(3, 40, 3), 40])
                self.assertEqual(often.losses, alone.losses)
                self.assertEqual(often.sha, alone.sha)
                self.assertEqual(often.summary["test_accuracy"], alone.summary["test_accuracy"])

    # Step 21 is in the middle of a round of each way, and an exchange is under way beside it.
    def test_a_stopped_run_ends_as_one_that_was_not(self):
        for name, flags in WAYS.items():
            with self.subTest(way=name):
                flags = [*flags, "--workers=2", "--steps=40", "--optimizer=adam"]
                whole = self.train(f"{name}-whole", *flags)
                parts = self.train(f"{name}-parts", *flags, "--stop-at=21")
                self.assertFalse(parts.summary["finished"])
                self.call("train", f"--resume={parts.folder}")
                self.assertTrue(parts.summary["finished"])
                self.assertEqual(parts.losses, whole.losses)
                self.assertEqual(parts.sha, whole.sha)

    # All of them begin with the mean of the models.
    def test_a_run_goes_on_with_another_number_of_workers(self):
        for name, flags in WAYS.items():
            parts = self.train(name, *flags, "--workers=3", "--steps=60", "--optimizer=adam",
                               "--stop-at=21")
            for workers in (2, 4):
                with self.subTest(way=name, workers=workers):
                    other = Run(self.path(f"{name}-{workers}"))
                    self.call("train", f"--resume={parts.folder}", f"--workers={workers}",
                              f"--out={other.folder}")
                    self.assertTrue(other.summary["finished"])
                    self.assertEqual(len(other.losses), 60)
                    self.assertLess(other.losses[21], 1.5 * parts.losses[20])


if __name__ == "__main__":
    unittest.main()
