"""Groups of workers that train one model together, of which some are lost: the others form groups anew and go on;
who has no place in one waits for it."""

import os
import signal
import unittest

from harness import PATIENCE, PROGRAM, SMALL, Run
from spread_case import SpreadCase

STEPS = 600
FLAGS = [f"--steps={STEPS}", "--workers=4", "--on-loss=continue", "--checkpoint-every=20", "--eval-every=never"]
PIPELINE = ["--pipeline=2", "--pipeline-cut=even"]
# Parts of the optimizer's state are lost with a worker: all go back to the last checkpoint.
FROM_CHECKPOINT = ["--shard=optimizer"]


class LostGroup(SpreadCase):
    def setUp(self):
        super().setUp()
        self.environment["ASUP_JOIN_TIMEOUT"] = str(PATIENCE)

    def begin(self, name, *flags):
        run = Run(self.path(name))
        process = self.start("train", *SMALL, *FLAGS, *flags, f"--out={run.folder}")
        self.wait_for_step(run, 30, process)
        return run, process

    def kill(self, rank):
        os.kill(self.members()[f"rank {rank}"], signal.SIGKILL)

    def end_of(self, process, status=0):
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status, out + err)
        return out + err

    def check_done(self, run, said, lost):
        """Every step once, and every sample of it."""
        summary = run.summary
        self.assertTrue(summary["finished"])
        self.assertEqual(summary["lost"], lost)
        self.assertEqual([row["step"] for row in run.rows if "loss" in row], list(range(1, STEPS + 1)))
        names = ", ".join(f"rank {rank}" for rank in lost)
        for rank in lost:
            self.assertRegex(said, rf"warning \[rank \d\] rank {rank} was lost\. The others go on from", names)

    def check_samples(self, run):
        # An epoch of 17 steps has 400 samples.
        self.assertEqual(run.summary["samples"], STEPS // 17 * 400 + STEPS % 17 * 24)

    def test_whichever_is_lost(self):
        slowly = ["--momentum=0.9", "--lr=0.0005"]
        alone = self.train("alone", f"--steps={STEPS}", "--workers=1", "--eval-every=never", *slowly)
        for victim, grid in enumerate((PIPELINE, PIPELINE, ["--tensor=2"], PIPELINE)):
            with self.subTest(victim=victim, grid=grid):
                run, process = self.begin(f"{victim}", *grid, *FROM_CHECKPOINT, *slowly)
                self.kill(victim)
                said = self.end_of(process)
                self.check_done(run, said, [victim])
                self.check_samples(run)
                self.assertIn("1 group of 2 workers goes on; 1 waits to take a place", said)
                self.assertIn(f"done, but 1 of 4 workers was lost: rank {victim}", said)
                self.assertEqual(run.summary["workers"], 2)
                self.assert_same_course(run, alone, within=1e-3)

    # Ranks 0 and 2 are the group that is left, and rank 3 waits.
    def test_who_waits_takes_the_next_hole(self):
        run, process = self.begin("run", *PIPELINE)
        self.kill(1)
        self.wait_for_workers(2, run, process)
        self.kill(2)
        self.wait_for(lambda: "rank 2" not in self.members() and run.last_step > 0, process, "rank 2 lives")
        said = self.end_of(process)
        self.check_done(run, said, [1, 2])
        self.assertIn("1 group of 2 workers goes on; 1 waits to take a place", said)
        self.assertRegex(said, r"rank 2 was lost\. The others go on from [^:]*: 1 group of 2 workers goes on\n")
        self.assertIn("done, but 2 of 4 workers were lost: ranks 1 and 2", said)

    def test_who_waits_may_be_lost(self):
        run, process = self.begin("run", *PIPELINE)
        self.kill(1)
        self.wait_for_workers(2, run, process)
        self.kill(3)
        said = self.end_of(process)
        self.check_done(run, said, [1])
        self.assertIn("done, but 2 of 4 workers were lost: ranks 1 and 3", said)

    def test_a_stopped_run_lets_go_of_who_waits(self):
        run, process = self.begin("run", *PIPELINE, "--steps=1000000")
        self.kill(1)
        self.wait_for_workers(2, run, process)
        process.send_signal(signal.SIGINT)
        self.end_of(process, 130)
        self.assertFalse(run.summary["finished"])

    # Where the job has room for another group, it is made of who waits and who comes.
    def test_a_newcomer_makes_a_group_whole(self):
        run, process = self.begin("run", *PIPELINE, "--steps=1000000")
        self.kill(0)
        self.wait_for_workers(2, run, process)
        newcomer = self.start("run", f"--join={run.folder}", "-n1", "--", PROGRAM, "train")
        self.wait_for_workers(4, run, process)
        process.send_signal(signal.SIGINT)
        self.end_of(process, 130)
        newcomer.communicate(timeout=PATIENCE)
        self.assertEqual(newcomer.returncode, 0)
        steps = [row["step"] for row in run.rows if "loss" in row]
        self.assertEqual(steps, list(range(1, run.summary["step"] + 1)))

    def test_too_few_end_the_run(self):
        for name, flags, first in ("two", ["--workers=2", *PIPELINE], 1), ("four", ["--pipeline=2", "--tensor=2"], 0):
            with self.subTest(name):
                run, process = self.begin(name, *flags, "--steps=1000000")
                self.kill(first)
                said = self.end_of(process, 1)
                self.assertRegex(said.strip().splitlines()[-1],
                                 rf"^asup train: no worker is left; rank {first} .*was killed by signal 9")
                self.assertRegex(said, r"\d of \d workers are left, and \d train one model together: resume the run")

    def wait_for_workers(self, count, run, process):
        """Returns when the run has been taken up by so many, and goes on."""
        def taken_up():
            return f'"workers": {count}' in self.text_of(run.path("facts.json"))
        self.wait_for(taken_up, process, f"the run does not go on with {count} workers")
        self.wait_for_step(run, run.last_step + 3, process)

    @staticmethod
    def text_of(path):
        with open(path) as file:
            return file.read()


if __name__ == "__main__":
    unittest.main()
