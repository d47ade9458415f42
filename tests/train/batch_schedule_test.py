"""Batches that grow: --batch-schedule."""

import struct
import unittest

import safetensors_file
from harness import SMALL, Case

# An epoch has 16 steps.
RUN = ["--synthetic-samples=384", "--batch=24", "--workers=2", "--epochs=3", "--optimizer=adam"]


def weights_of(run):
    _, tensors = safetensors_file.read(run.path("model.safetensors"))
    return [number for _, _, data in tensors.values() for number in struct.unpack(f"<{len(data) // 4}f", data)]


class BatchSchedule(Case):
    # Samples of an epoch that is one update are all there are, in whatever order.
    def test_several_batches_make_one_update(self):
        flags = [*RUN, "--optimizer=sgd", "--momentum=0", "--lr=0.5"]
        grown = self.train("grown", *flags, "--epochs=2", "--batch-schedule=16@16")
        self.assertEqual(grown.summary["updates"], 17)
        first = self.train("first", *flags, "--epochs=1")
        whole = self.train("whole", *flags, "--epochs=1", "--batch=384", f"--init={first.folder}")
        mine, wanted, before = map(weights_of, (grown, whole, first))
        self.assertLess(max(abs(a - b) for a, b in zip(mine, wanted)), 1e-5)
        self.assertGreater(max(abs(a - b) for a, b in zip(before, wanted)), 1e-3)  # else anything would do

    # Rows, tests and checkpoints count in steps, and all samples are in them.
    def test_an_epoch_stays_one_pass(self):
        run = self.train("run", *RUN, "--batch-schedule=2@25%,4@50%", "--log-every=5", "--eval-every=7",
                         "--checkpoint-every=7", "--keep-checkpoints=100")
        self.assertEqual(run.summary["step"], 48)
        self.assertEqual(run.summary["samples"], 3 * 384)
        self.assertEqual(sum(row["samples"] for row in run.rows if "loss" in row), 3 * 384)
        # 12 of one step, then 2 until the epoch's end, 4 in half of the next, 1 of eight there, 2 in the last.
        self.assertEqual(run.summary["updates"], 12 + 2 + 4 + 1 + 2)
        tests = [row["step"] for row in run.rows if "test_loss" in row]
        self.assertEqual(tests, [7, 14, 22, 32, 40, 48])
        steps = [int(path[-8:]) for path in run.checkpoints]
        self.assertEqual(steps, [7, 14, 22, 32, 40, 48])

    # An update has that of its first step.
    def test_rows_have_the_learning_rate_that_was_used(self):
        flags = [*RUN, "--schedule=cosine"]
        of_step = {row["step"]: row["lr"] for row in self.train("whole", *flags).rows if "loss" in row}
        rows = [row for row in self.train("run", *flags, "--batch-schedule=4@16").rows if "loss" in row]
        self.assertEqual([row["step"] for row in rows], [*range(1, 17), *range(20, 49, 4)])
        for row in rows:
            self.assertEqual(row["lr"], of_step[row["step"] - (3 if row["step"] > 16 else 0)], row["step"])

    def test_does_not_depend_on_the_workers_nor_on_who_looks(self):
        flags = [*RUN, "--batch-schedule=4@10"]
        two = self.train("two", *flags, "--log-every=1000")
        self.assertEqual(self.train("looked", *flags, "--eval-every=3", "--checkpoint-every=5").sha, two.sha)
        three = self.train("three", *flags, "--workers=3", "--log-every=1000")
        self.assertAlmostEqual(three.losses[-1], two.losses[-1], delta=1e-4)

    # 20 is within an update, which is taken to its end.
    def test_a_stopped_run_ends_as_one_that_was_not(self):
        flags = [*RUN, "--batch-schedule=4@10"]
        for compress in [], ["--compress=int4"]:
            whole = self.train("whole" + "".join(compress), *flags, *compress)
            parts = self.train("parts" + "".join(compress), *flags, *compress, "--stop-at=21")
            self.assertEqual(parts.summary["step"], 24)
            self.call("train", f"--resume={parts.folder}")
            self.assertEqual(parts.sha, whole.sha)
            self.assertEqual(parts.losses, whole.losses)

    def test_refuses_what_it_cannot_do(self):
        for flags, words in ((["--batch-schedule=4"], "4@50%"),
                             (["--batch-schedule=4@90"], "within the run"),
                             (["--batch-schedule=4@50%", "--sync=local"], "sync = allreduce"),
                             (["--batch-schedule=4@50%", "--sync=server"], "sync = allreduce"),
                             (["--batch-schedule=4@50%", "--balance"], "balance"),
                             (["--batch-schedule=4@50%", "--then=local"], "sync = allreduce")):
            self.assertIn(words, self.refused("train", *SMALL, *RUN, *flags, f"--out={self.path('refused')}"))


if __name__ == "__main__":
    unittest.main()
