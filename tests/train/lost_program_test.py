"""A program of one's own that saves checkpoints: where one of its workers is lost, the others go on."""

import os
import re
import shutil
import unittest

from harness import SOAK, Case

WAYS = {
    "allreduce": [],
    "allreduce-tcp": ["ASUP_LINKS=tcp", "ASUP_BUCKET_MB=0.001"],
    "allreduce-int8": ["ASUP_COMPRESS=int8"],
    "local": ["ASUP_SYNC=local", "ASUP_EVERY=4"],
    "diloco": ["ASUP_SYNC=diloco", "ASUP_EVERY=3"],
    "slowmo": ["ASUP_SYNC=slowmo", "ASUP_EVERY=4"],
    "gossip": ["ASUP_SYNC=gossip"],
    "adpsgd": ["ASUP_SYNC=adpsgd"],
    "asp": ["ASUP_SYNC=server", "ASUP_PACE=asp"],
    "bsp": ["ASUP_SYNC=server", "ASUP_PACE=bsp"],
}
STEPS = 40
LOST_PROGRAM = os.environ["LOST_PROGRAM"]


class LostProgram(Case):
    def run_program(self, folder, way, rank, when, step, workers=4, status=0, steps=STEPS):
        servers = ["--servers", "1"] if "ASUP_SYNC=server" in WAYS[way] else []
        variables = [flag for variable in WAYS[way] for flag in ("--env", variable)]
        return self.call("run", "-n", str(workers), *servers, *variables, "--on-loss", "continue",
                         "--call-timeout", "8" if when == "stopped" else "300", "--", LOST_PROGRAM, self.path(folder), str(steps), str(rank), when, str(step),
                         status=status)

    def saved(self, folder):
        """Steps of its checkpoints, and how many workers each is of."""
        found = {}
        for name in os.listdir(self.path(folder)):
            if name == ".lock":  # of who writes there
                continue
            self.assertRegex(name, r"^step-\d{8}$")
            shards = [file for file in os.listdir(self.path(f"{folder}/{name}")) if "shard" in file]
            found[int(name[5:])] = len(shards)
        return found

    def check_goes_on(self, way, rank, when, step):
        folder = f"{way}-{rank}-{when}"
        done = self.run_program(folder, way, rank, when, step)
        ends = re.findall(r"ends at (\d+) with 3 workers, weight (\S+)", done.stdout)
        self.assertEqual([int(end) for end, _ in ends], [STEPS] * 3, done.stdout + done.stderr)
        self.assertEqual(len({weight for _, weight in ends}), 1, "one model")
        self.assertIn(f"rank {rank} was lost: 3 workers go on", done.stderr)
        saved = self.saved(folder)
        for due in range(5, STEPS + 1, 5):
            if due != step:
                self.assertEqual(saved.get(due), 4 if due < step else 3, (due, saved, done.stderr))

    def test_every_way_saves_on(self):
        for way in WAYS:
            with self.subTest(way=way):
                self.check_goes_on(way, 2, "before", 17)
                folder = f"{way}-2-before"
                resumed = self.run_program(folder, way, -1, "before", 0, steps=STEPS + 5)
                self.assertEqual(len(re.findall(f"begins at {STEPS}\n", resumed.stdout)), 4)
                self.assertEqual(self.saved(folder)[STEPS + 5], 4)

    # The next one keeps the checkpoints.
    def test_without_rank_0_too(self):
        for way in WAYS:
            with self.subTest(way=way):
                self.check_goes_on(way, 0, "before", 17)

    # It is stopped, and ended by those whose memory it reaches, or by the launcher.
    def test_one_that_is_stopped_is_done_without(self):
        for way, rank in (("allreduce", 2), ("allreduce-tcp", 0), ("local", 0)):
            with self.subTest(way=way):
                self.check_goes_on(way, rank, "stopped", 17)

    def test_where_nobody_who_is_left_sees_the_folder_the_job_ends(self):
        program = self.program_on_hosts(self.path("hidden"))
        done = self.call("run", "-n3", "--env=ASUP_SYNC=local", "--on-loss=continue", "--", program,
                         LOST_PROGRAM, self.path("hidden/run"), "40", "0", "before", "17", status=1)
        self.assertRegex(done.stderr, "the worker that kept the checkpoints in .*/hidden/run was lost, and "
                         "rank 1 does not see that folder: start the job again")
        self.assertEqual(sorted(self.saved("hidden/run")), [5, 10, 15])

    # It is missed in what the others do with the mean model, and they do that again.
    def test_lost_in_a_test(self):
        for way in WAYS:
            with self.subTest(way=way):
                self.check_goes_on(way, 3, "in-test", 20)

    # It is missed in the checkpoint itself, which the others then write without it.
    def test_lost_in_a_checkpoint(self):
        for way in WAYS:
            with self.subTest(way=way):
                self.check_goes_on(way, 3, "in-save", 20)
                # By all-reduce nobody asks the others before the files are written: they may be left out.
                self.assertIn(self.saved(f"{way}-3-in-save").get(20),
                              [3, None] if way.startswith("allreduce") else [3])

    # Nobody knows whether it was whole; the next one is.
    def test_lost_while_files_are_written(self):
        for number in range(30 if SOAK else 1):
            for way in WAYS:
                with self.subTest(way=way, number=number):
                    self.check_goes_on(way, number % 3, "in-write", 20)
                    shutil.rmtree(self.path(f"{way}-{number % 3}-in-write"))


if __name__ == "__main__":
    unittest.main()
