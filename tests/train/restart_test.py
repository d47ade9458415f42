"""A job that fails is started again, and goes on from its last checkpoint to the bits it would
have had."""

import glob
import os
import signal
import time
import unittest

from harness import PATIENCE, PROGRAM, SMALL, Case, Run

RUN = [*SMALL, "--steps=3000", "--checkpoint-every=100", "--log-every=10"]


class Restart(Case):
    def kill_rank_one(self, run, process, number):
        """In the midst of the run, and of its first life."""
        self.wait_for_step(run, 250, process)
        os.kill(self.members()["rank 1"], number)

    def ends(self, process, status=0):
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status, out + err)
        return out, err

    def assert_went_on(self, out, err, program):
        self.assertRegex(err, f"{program}: rank 1 .*was killed by signal 6 .*; "
                              r"starting the job again \(1 of 3\)")
        self.assertRegex(out, r"resumed after step [1-9]\d*00")

    def test_goes_on_from_the_last_checkpoint(self):
        whole = self.train("whole", *RUN)
        run = Run(self.path("run"))
        process = self.start("run", "-n", "2", "--restarts", "3", "--", PROGRAM, "train", *RUN,
                             f"--out={run.folder}")
        self.kill_rank_one(run, process, signal.SIGABRT)
        self.assert_went_on(*self.ends(process), "asup run")
        self.assertEqual(run.sha, whole.sha)
        self.assertEqual(run.losses, whole.losses)
        self.assertEqual(glob.glob(run.folder + ".previous*"), [], "it is the same run")

    def test_of_asup_train_itself(self):
        whole = self.train("whole", *RUN)
        run = Run(self.path("run"))
        process = self.start("train", *RUN, "--restarts=3", f"--out={run.folder}")
        self.kill_rank_one(run, process, signal.SIGABRT)
        self.assert_went_on(*self.ends(process), "asup train")
        self.assertEqual(run.sha, whole.sha)

    def test_in_a_folder_that_nobody_has_named(self):
        os.symlink(PROGRAM, self.path("asup"))  # the test's processes are known by its folder
        process = self.start("run", "-n", "2", "--restarts", "3", "--", self.path("asup"), "train",
                             *RUN)
        while not (found := glob.glob(self.path("runs/*/metrics.jsonl"))):
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        run = Run(os.path.dirname(found[0]))
        self.kill_rank_one(run, process, signal.SIGABRT)
        self.ends(process)
        self.assertEqual(glob.glob(self.path("runs/*")), [run.folder], "in one life as the other")
        self.assertTrue(run.summary["finished"])

    # What was in the folder before is another run, which the second life must not go on from.
    def test_a_life_that_had_not_begun_is_begun_again(self):
        earlier = self.train("run", "--workers=2", "--steps=40", "--seed=8")
        sha = earlier.sha
        script = 'if [ $ASUP_RESTART = 0 ]; then exit 3; fi; exec "$@"'
        self.call("run", "-n", "2", "--restarts", "1", "--", "sh", "-c", script, "sh", PROGRAM,
                  "train", *SMALL, "--steps=40", f"--out={earlier.folder}")
        self.assertEqual(earlier.summary["first_step"], 0)
        self.assertNotEqual(earlier.sha, sha)
        self.assertEqual(Run(earlier.folder + ".previous-1").sha, sha)

    def test_as_often_as_was_said(self):
        err = self.call("run", "--restarts", "2", "--", "sh", "-c",
                        "echo life $ASUP_RESTART >&2; exit 3", status=1).stderr
        self.assertRegex(err, r"life 0\n.*again \(1 of 2\)\nlife 1\n.*again \(2 of 2\)\nlife 2\n"
                              r"asup run: rank 0 .*exited with status 3\n$")

    def test_bad_input_and_signals_are_final(self):
        err = self.call("run", "-n", "2", "--restarts", "3", "--", PROGRAM, "train",
                        "--data=nowhere", status=2).stderr
        self.assertNotIn("again", err)
        self.assertNotIn("again", self.call("train", *SMALL, "--data=nowhere", "--restarts=3",
                                            status=2).stderr)
        process = self.start("run", "--restarts", "3", "--", "sh", "-c", "echo begun; sleep 1000")
        self.assertEqual(process.stdout.readline(), "begun\n")
        process.send_signal(signal.SIGINT)
        self.assertNotIn("again", self.ends(process, 130)[1])

    def test_who_starts_the_job_starts_it_again(self):
        self.assertIn("asup run --restarts 2", self.call(
            "run", "-n", "2", "--", PROGRAM, "train", *SMALL, "--restarts=2", status=2).stderr)
        self.assertIn("--restarts", self.refused("run", "--join", "nobody", "--restarts", "2", "--",
                                                 "true"))


if __name__ == "__main__":
    unittest.main()
