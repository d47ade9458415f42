"""Unequal workers in step: each has a part of the batch that fits its speed."""

import json
import unittest

from harness import SMALL, Case

# By sleeps: a sample takes a millisecond, and three on rank 1.
UNEQUAL = {"ASUP_INJECTED_SLOWNESS": "sample_ms=1 slow=1:3"}


class Balance(Case):
    def check_less_for_the_second(self, run):
        """In all steps together: on a busy machine, either may be the slower one for a moment."""
        fast, slow = map(sum, zip(*(row["parts"] for row in run.rows if "parts" in row)))
        self.assertGreater(fast, 1.2 * slow)

    def test_a_slow_worker_has_less_of_every_batch(self):
        run = self.train("run", "--workers=2", "--steps=60", "--balance", "--batch=48", **UNEQUAL)
        self.assertEqual(run.rows[0]["parts"], [24, 24])
        self.check_less_for_the_second(run)
        rows = [row for row in run.rows if "loss" in row]
        self.assertEqual(rows[-1]["parts"], run.summary["parts"])
        self.assertTrue(all(sum(row["parts"]) == 48 for row in rows))
        self.assertEqual(sum(row["samples"] for row in rows), run.summary["samples"])
        with open(run.path("report.html")) as file:
            self.assertIn('"parts"', file.read())

    # Whatever the parts are, and however they change, epochs of 17 steps with a shorter last batch.
    # How close they stay: see equivalence_test.py.
    def test_the_course_is_that_of_one_process(self):
        flags = ["--steps=60", "--model=cnn", "--width=4", "--momentum=0.9", "--lr=0.001"]
        alone = self.train("one", *flags, "--workers=1")
        run = self.train("three", *flags, "--workers=3", "--balance", "--accumulate=2",
                         ASUP_INJECTED_SLOWNESS="sample_ms=1 slow=1:4 slow=2:2")
        self.assertTrue(any(row["parts"] != [8, 8, 8] for row in run.rows if "parts" in row))
        self.assertEqual(len(run.losses), 60)
        for step, (a, b) in enumerate(zip(run.losses, alone.losses), 1):
            self.assertLessEqual(abs(a - b), 1e-3 * abs(b), f"step {step}: {a} and {b}")

    def test_a_resumed_run_begins_with_the_parts_it_had(self):
        flags = ["--workers=2", "--steps=70", "--balance", "--checkpoint-every=10"]
        run = self.train("run", *flags, "--stop-at=50", **UNEQUAL)
        before = run.summary["parts"]
        self.check_less_for_the_second(run)
        self.call("train", f"--resume={run.folder}", **UNEQUAL)
        self.assertTrue(run.summary["finished"])
        rows = [row for row in run.rows if "loss" in row]
        self.assertEqual((rows[50]["step"], rows[50]["parts"]), (51, before))
        with open(run.path("choices.json")) as file:
            self.assertEqual(json.load(file)["parts"], run.summary["parts"])
        # And without it, parts are even again.
        self.call("train", f"--resume={run.folder}", "--steps=75", "--balance=false")
        self.assertNotIn("parts", run.rows[-1])
        self.assertNotIn("parts", run.summary)

    def test_bad_input(self):
        def refused(*flags):
            return self.refused("train", *SMALL, "--balance", *flags)

        self.assertIn("there is one worker. Raise workers", refused("--workers=1"))
        for way in "asup", "server":
            self.assertIn("balance has no effect: through servers, a fast worker leases more",
                          refused(f"--sync={way}"))
        for way in "local", "diloco", "gossip":
            self.assertIn("balance is for ways that exchange gradients in lockstep, such as sync = "
                          f"allreduce, not for {way}", refused(f"--sync={way}"))


if __name__ == "__main__":
    unittest.main()
