"""A run folder that another process writes while one waits for it."""

import fcntl
import os
import shutil
import unittest

from harness import SMALL, Case, Run


class RunFolder(Case):
    def wait_until_it_waits(self, run, process):
        """Returns when a process of the run has the lock's file open."""
        lock = os.path.realpath(run.path(".lock"))

        def is_open():
            for pid, _ in self.processes():
                try:
                    files = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                except OSError:
                    continue  # it has just ended, or closed one
                if lock in files:
                    return True
            return False

        self.wait_for(is_open, process, "nobody waits for the lock")

    def resumed_while(self, run, change):
        """What a run says that is resumed while somebody else has the folder, who does `change` to it."""
        with open(run.path(".lock"), "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = self.start("train", f"--resume={run.folder}", "--steps=40")
            self.wait_until_it_waits(run, process)
            change()
        _, said = process.communicate(timeout=300)
        return process.returncode, said

    def test_who_waited_for_the_lock_does_not_write_over_what_another_has_done(self):
        run = self.train("run", "--steps=20", "--checkpoint-every=10")
        before = run.rows
        newest = run.checkpoints[-1]
        status, said = self.resumed_while(
            run, lambda: shutil.copytree(newest, run.path("checkpoints/step-00000030")))
        self.assertEqual(status, 2, said)
        self.assertIn("another process has just gone on with this run, beyond step 20: resume it again", said)
        self.assertEqual(run.rows, before)

    def test_who_waited_goes_on_where_nothing_has_changed(self):
        run = self.train("run", "--steps=20", "--checkpoint-every=10")
        status, said = self.resumed_while(run, lambda: None)
        self.assertEqual(status, 0, said)
        self.assertEqual(run.summary["step"], 40)


if __name__ == "__main__":
    unittest.main()
