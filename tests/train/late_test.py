"""Rounds of a given time: a worker that is late for a merge is not waited for, and joins the next."""

import json
import os
import signal
import time
import unittest

from harness import PATIENCE, SMALL, Case, Run

ENDLESS = [*SMALL, "--lr=0.01", "--workers=3", "--steps=1000000"]
ROUNDS = {
    "average": ["--sync=local", "--round-seconds=5", "--merge-deadline=1"],
    "keep": ["--sync=local", "--round-seconds=5", "--merge-deadline=1", "--merge-state=keep",
             "--links=tcp"],
}


class Late(Case):
    def samples_by_worker(self, run):
        """As the newest checkpoint has them."""
        return run.saved["run"]["samples_by_worker"]

    def step(self, run):
        with open(run.path("metrics.jsonl")) as file:
            return json.loads([line for line in file if line.endswith("\n")][-1])["step"]

    def begin(self, name):
        run = Run(self.path(name))
        # Steps take much longer than merges.
        self.environment["ASUP_INJECTED_SLOWNESS"] = "sample_ms=5"
        process = self.start("train", *ENDLESS, *ROUNDS[name], f"--out={run.folder}")
        self.wait_for_step(run, 17, process)
        return run, process

    def halted(self, run, process, rank, after):
        """The others meet while this one is halted, wherever it is; then it goes on."""
        late = self.members()[f"rank {rank}"]
        self.wait_for_step(run, self.step(run) + 2 * 17, process)
        time.sleep(after)
        before = self.samples_by_worker(run)
        os.kill(late, signal.SIGSTOP)
        try:
            self.wait_for_step(run, self.step(run) + 3 * 17, process)
            done = [a - b for a, b in zip(self.samples_by_worker(run), before)]
            self.assertEqual(min(done), done[rank])
        finally:
            os.kill(late, signal.SIGCONT)

    # A row that is new is written in the middle of a merge. The moments after it fall into its
    # test and checkpoint, into steps, and into the next merge.
    def test_the_others_go_on_and_it_comes_back(self):
        for name, rank in (("average", 1), ("keep", 2)):
            with self.subTest(rounds=name):
                run, process = self.begin(name)
                for after in (0, 0.1, 0.4):
                    self.halted(run, process, rank, after)
                before = self.samples_by_worker(run)
                self.wait_for(lambda: self.samples_by_worker(run)[rank] > before[rank], process,
                              "it does not come back")
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 130, err)
                self.assertNotIn("lost", err)
                after = self.samples_by_worker(run)
                self.assertEqual(sum(after), run.summary["samples"])
                self.assertEqual(sum(row["samples"] for row in run.rows if "loss" in row),
                                 run.summary["samples"])
                steps = [row["step"] for row in run.rows if "loss" in row]
                self.assertEqual(steps, sorted(set(steps)))

    # It is stopped when the run is about to end, for longer than the deadline.
    def test_at_the_end_it_is_waited_for(self):
        run, process = self.begin("average")
        late = self.members()["rank 1"]
        os.kill(late, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        self.assertIsNone(process.poll())
        os.kill(late, signal.SIGCONT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        self.assertNotIn("lost", err)
        self.assertEqual(sum(self.samples_by_worker(run)), run.summary["samples"])

    def test_bad_input(self):
        def refused(*flags):
            return self.refused("train", *SMALL, *flags, f"--out={self.path('refused')}")

        self.assertIn("merge-deadline = 1 has no effect", refused("--merge-deadline=1"))
        self.assertIn("merge-deadline = 1 has no effect",
                      refused("--sync=adpsgd", "--workers=2", "--merge-deadline=1"))
        self.assertIn("merge-deadline", refused("--sync=local", "--round-seconds=1",
                                                "--merge-deadline=soon"))


if __name__ == "__main__":
    unittest.main()
