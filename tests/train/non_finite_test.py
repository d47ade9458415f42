"""Steps whose gradients are infinite or NaN are left out and counted, end the run, or are applied."""

import os
import unittest

import safetensors_file
from harness import SMALL, Case, Run

SPOILED = [*SMALL, f"--model={os.environ['SPOILS']}", "--width=auto", "--conv-path=onednn", "--lr=0.01"]


class NonFinite(Case):
    def spoiled(self, name, *flags, batches="", rank="", status=0):
        """A run in which the model spoils these batches, on this worker or on all."""
        done = self.call("train", *SPOILED, *flags, f"--out={self.path(name)}", status=status,
                         SPOILED=batches, SPOILED_RANK=rank)
        run = Run(self.path(name))
        run.said = done.stdout + done.stderr
        return run

    def weights(self, run):
        return safetensors_file.read(run.path("model.safetensors"))[1]

    # The run that goes on without the spoilt batch has what it would have had of the others: their
    # samples in the same order.
    def test_all_workers_leave_a_step_out_that_one_has_spoiled(self):
        flags = ["--workers=2", "--steps=12", "--momentum=0.9", "--ema=0.9", "--checkpoint-every=5"]
        run = self.spoiled("run", *flags, batches="5,8", rank="1")
        self.assertTrue(run.summary["finished"])
        self.assertEqual(run.summary["skipped_steps"], 2)
        self.assertEqual([row["step"] for row in run.rows if row.get("skipped")], [5, 8])
        self.assertEqual([row["skipped"] for row in run.rows if "skipped" in row], [1, 1])
        self.assertEqual(sum(row["samples"] for row in run.rows if "loss" in row), 12 * 24)
        # Rank 0's loss of that step is a number, and is what there is to log.
        self.assertTrue(all(loss is not None for loss in run.losses))
        self.assertRegex(run.said, r"the gradients of step \d+ are infinite or NaN: it is left out")
        self.assertRegex(run.said, r"skipped +2 steps, whose gradients were infinite or NaN")
        self.assertIn("skipped", self.call("report", run.folder).stdout)
        for name, (dtype, _, data) in self.weights(run).items():
            self.assertNotIn(b"\x00\x00\xc0\x7f", [data[i:i + 4] for i in range(0, len(data), 4)], name)
        again = self.spoiled("again", *flags, batches="5,8", rank="1")
        self.assertEqual(run.sha, again.sha)

    # A checkpoint that is made just before has all that counts of the state: what comes after a
    # skipped step is what would have come without it.
    def test_nothing_of_a_skipped_step_is_left(self):
        flags = ["--workers=2", "--remainder=drop", "--optimizer=adam", "--ema=0.9",
                 "--checkpoint-every=1", "--keep-checkpoints=20"]
        run = self.spoiled("run", *flags, "--steps=6", batches="5")
        before, after = run.checkpoints[3], run.checkpoints[4]
        for shard in "shard-1-of-2.safetensors", "shard-2-of-2.safetensors":
            then, now = (safetensors_file.read(os.path.join(place, shard))[1] for place in (before, after))
            self.assertEqual(then.keys(), now.keys())
            for name in then:
                if "num_batches" in name or "random" in name.lower():
                    continue  # it has computed the batch
                self.assertEqual(then[name], now[name], name)

    def test_a_resumed_run_counts_on(self):
        whole = self.spoiled("whole", "--workers=2", "--steps=10", "--stop-at=6", batches="3,5")
        self.call("train", f"--resume={whole.folder}", SPOILED="2")
        self.assertEqual(whole.summary["skipped_steps"], 3)

    # Its own steps alone, where each worker steps by itself.
    def test_every_way_goes_on(self):
        for way, count in (("local --every=4", 2), ("diloco --every=4", 2), ("slowmo --every=4", 2),
                           ("gossip", 2), ("adpsgd", 2), ("server --pace=bsp", 2),
                           ("server --pace=asp", 2),
                           ("asup", (1, 2)),  # as many batches as the pace gives to rank 1
                           ("server --pace=bsp --merge=mean --every=3", 2)):
            name, *more = way.split()
            with self.subTest(way):
                run = self.spoiled(way, "--workers=2", "--steps=15", f"--sync={name}", *more,
                                   batches="2,4", rank="1")
                self.assertTrue(run.summary["finished"])
                self.assertIn(run.summary["skipped_steps"], count if isinstance(count, tuple) else (count,))
                self.assertLess(run.summary["test_loss"], 3)

    def test_a_run_that_does_not_recover_ends(self):
        for way in "allreduce", "local", "adpsgd", "server":
            with self.subTest(way):
                run = self.spoiled(way, "--workers=2", "--steps=200", f"--sync={way}", batches="4-",
                                   status=1)
                with open(run.path("failure.txt")) as file:
                    self.assertRegex(file.read(), r"the loss became -?nan in step \d+: training has diverged.*"
                                                  r"10 steps in succession were skipped")

    def test_a_run_that_skips_most_steps_ends(self):
        two_of_three = ",".join(str(batch) for batch in range(1, 400) if batch % 3)
        for way in "allreduce", "local", "server":
            with self.subTest(way):
                run = self.spoiled(way, "--workers=2", "--steps=200", f"--sync={way}",
                                   batches=two_of_three, status=1)
                with open(run.path("failure.txt")) as file:
                    self.assertRegex(file.read(), r"in step \d+: training has diverged.*"
                                                  r"More than half of the last steps were skipped")

    def test_they_may_end_the_run_or_be_applied(self):
        for way in "allreduce", "local", "server":
            flags = ["--workers=2", "--steps=30", f"--sync={way}"]
            with self.subTest(way):
                fatal = self.spoiled(f"fatal {way}", *flags, "--non-finite=fatal", batches="3", status=1)
                self.assertRegex(fatal.said, r"not finite|are infinite or NaN")
                applied = self.spoiled(f"applied {way}", *flags, "--non-finite=apply", batches="3", status=1)
                with open(applied.path("failure.txt")) as file:
                    self.assertRegex(file.read(), r"the loss became -?nan in step \d+: training has diverged")

    def test_bad_input(self):
        self.assertIn("non-finite: 'skipp' is none of skip, fatal, apply",
                      self.refused("train", *SMALL, "--non-finite=skipp"))


if __name__ == "__main__":
    unittest.main()
