"""Workers join a job that runs, are lost, and come back: the others go on."""

import glob
import json
import os
import re
import signal
import subprocess
import time
import unittest

from harness import PATIENCE, PROGRAM, SMALL, Case, Run

# Far longer than any test takes; ended by Ctrl-C, with a checkpoint.
ENDLESS = [*SMALL, "--steps=1000000", "--eval-every=never", "--checkpoint-every=1000000",
           "--synthetic-samples=144", "--lr=0.001", "--progress=none"]

WAYS = {
    "allreduce": [],
    "allreduce-tcp": ["--links=tcp"],
    "balance": ["--balance"],
    "local": ["--sync=local", "--every=3"],
    "rounds": ["--sync=local", "--round-seconds=0.2"],
    "diloco": ["--sync=diloco", "--every=4"],
    "gossip": ["--sync=gossip"],
    "adpsgd": ["--sync=adpsgd"],
    "bsp": ["--sync=server"],
    "asup": ["--sync=asup", "--keep-servers", "--servers=2"],
}


class Join(Case):
    def setUp(self):
        super().setUp()
        self.environment["ASUP_JOIN_TIMEOUT"] = str(PATIENCE)

    def begin(self, name, *flags, workers=2):
        run = Run(self.path(name))
        process = self.start("train", *ENDLESS, f"--workers={workers}", *flags,
                             f"--out={run.folder}", bufsize=1)
        self.wait_for_step(run, 3, process)
        return run, process

    def join(self, job, *words, count=1):
        return self.start("run", f"--join={job}", f"-n{count}", "--", PROGRAM, "train", *words)

    def finish(self, process):
        """Ctrl-C: what the launcher has said by its end."""
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, out + err)
        return out + err

    def ranks(self, process):
        """The pids of a launcher's ranks, in the order in which they were started."""
        listing = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(process.pid)],
                                 capture_output=True, text=True).stdout.splitlines()
        is_rank = re.compile(r"train( --worker|$)")  # not what guards the launcher's ranks
        return sorted(int(line.split()[0]) for line in listing
                      if is_rank.search(line) and "--join" not in line)

    def wait_for_workers(self, count, run, process):
        """Returns when the run has been taken up by so many: from a checkpoint, so that steps may be
        done again."""
        def taken_up():
            with open(run.path("facts.json")) as file:
                return json.load(file)["workers"] == count
        self.wait_for(taken_up, process, f"the run does not go on with {count} workers")
        self.wait_for_step(run, run.last_step + 3, process)

    def test_a_worker_joins_every_way(self):
        for name, flags in WAYS.items():
            with self.subTest(way=name):
                run, process = self.begin(name, *flags)
                newcomer = self.join(run.folder)
                self.wait_for_workers(3, run, process)
                self.assertIsNone(newcomer.poll())
                said = self.finish(process)
                self.assertRegex(said, r"the job goes on with 3 (ranks|workers)")
                self.assertRegex(said, r"rank 2 \(pid \d+ on \S+\) joined")
                newcomer.communicate(timeout=PATIENCE)
                self.assertEqual(newcomer.returncode, 0)
                summary = run.summary
                self.assertEqual(summary["workers"], 3)
                steps = [row["step"] for row in run.rows if "loss" in row]
                self.assertEqual(steps, sorted(set(steps)))
                # All samples of all steps, once each; at their own pace workers end in the midst of a step.
                if name not in ("rounds", "adpsgd"):
                    self.assertEqual(steps[-1], summary["step"])
                    self.assertEqual(summary["samples"], 24 * summary["step"])

    def test_several_come_and_go(self):
        run, process = self.begin("several")
        guests = self.join(run.folder, count=2)
        self.wait_for_workers(4, run, process)
        os.kill(self.ranks(guests)[0], signal.SIGKILL)
        self.wait_for_workers(3, run, process)
        self.assertIsNone(guests.poll(), "the other one is still in")
        said = self.finish(process)
        self.assertIn("the job goes on with 4 ranks", said)
        self.assertIn("which had joined, is lost", said)
        self.assertIn("the job goes on with 3 ranks", said)
        self.assertEqual(run.summary["workers"], 3)

    # From a checkpoint: parts of the optimizer's state are lost with a worker.
    def test_lost_workers_and_their_successors(self):
        for victim in (1, 0):
            with self.subTest(victim=victim):
                run, process = self.begin(f"lost-{victim}", "--on-loss=continue", "--shard=optimizer",
                                          "--checkpoint-every=5", workers=3)
                self.wait_for_step(run, 6, process)
                os.kill(self.ranks(process)[victim], signal.SIGKILL)
                self.wait_for_workers(2, run, process)
                newcomer = self.join(run.folder)
                self.wait_for_workers(3, run, process)
                self.assertIsNone(newcomer.poll())
                said = self.finish(process)
                self.assertIn("the job goes on with 2 ranks", said)
                self.assertIn("the job goes on with 3 ranks", said)
                self.assertEqual(run.summary["workers"], 3)
                self.assertEqual(run.summary["samples"], 24 * run.summary["step"])

    # From memory, and then with the successor from a checkpoint that is made for it.
    def test_a_successor_where_the_others_went_on(self):
        for victim in (1, 0):
            with self.subTest(victim=victim):
                run, process = self.begin(f"went-on-{victim}", "--on-loss=continue", workers=3)
                os.kill(self.ranks(process)[victim], signal.SIGKILL)
                self.wait_for_step(run, run.last_step + 5, process)
                newcomer = self.join(run.folder)
                self.wait_for(lambda: run.checkpoints, process, "the job takes nobody in")
                self.wait_for_step(run, run.last_step + 5, process)
                self.assertIsNone(newcomer.poll())
                said = self.finish(process)
                self.assertNotIn("the job goes on with 2 ranks", said)
                self.assertIn("the job goes on with 3 ranks", said)
                summary = run.summary
                self.assertEqual(summary["workers"], 3)
                self.assertEqual(summary["lost"], [victim])
                steps = [row["step"] for row in run.rows if "loss" in row]
                self.assertEqual(steps, list(range(1, summary["step"] + 1)))

    # The job is theirs then: its launcher stays, and with it the coordinator and the servers.
    def test_newcomers_go_on_when_all_who_began_are_lost(self):
        for name in ("allreduce", "bsp"):
            with self.subTest(way=name):
                run, process = self.begin(f"theirs-{name}", "--on-loss=continue", "--checkpoint-every=5", *WAYS[name])
                guests = self.join(run.folder, count=2)
                self.wait_for_workers(4, run, process)
                for rank in (0, 1):
                    os.kill(self.members()[f"rank {rank}"], signal.SIGKILL)
                    self.wait_for_step(run, run.last_step + 10, process)
                guests.send_signal(signal.SIGINT)
                out, err = guests.communicate(timeout=PATIENCE)
                self.assertEqual(guests.returncode, 130, out + err)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 1, err)
                self.assertRegex(err.splitlines()[-1], "all workers that it began with were lost; those that had "
                                 r"joined went on.*; rank \d .*was killed by signal 9")
                self.assertGreater(len(run.checkpoints), 0)

    def test_a_newcomer_that_dies_at_the_door_changes_nothing(self):
        run, process = self.begin("door")
        for pause in (0, 0.3, 0.6, 0.9, 1.2):
            newcomer = self.join(run.folder)
            self.wait_for(lambda: self.ranks(newcomer), process, "no newcomer was started")
            time.sleep(pause)  # somewhere between its start and its first steps
            os.kill(self.ranks(newcomer)[0], signal.SIGKILL)
            newcomer.communicate(timeout=PATIENCE)
            self.assertEqual(newcomer.returncode, 1)
        self.wait_for_workers(2, run, process)  # one may have been in
        self.join(run.folder)
        self.wait_for_workers(3, run, process)
        self.finish(process)
        self.assertEqual(run.summary["workers"], 3)

    def test_a_newcomer_that_cannot_train_changes_nothing(self):
        run, process = self.begin("blind")
        newcomer = self.start("run", f"--join={run.folder}", "-n1", "--env=ASUP_INJECTED_SLOWNESS=nonsense",
                              "--", PROGRAM, "train")
        _, err = newcomer.communicate(timeout=PATIENCE)
        self.assertEqual(newcomer.returncode, 2)
        self.assertIn("ASUP_INJECTED_SLOWNESS", err)
        self.wait_for_step(run, run.last_step + 3, process)
        self.finish(process)
        self.assertEqual(run.summary["workers"], 2)

    # A batch of three samples: the third worker of four that come finds work, the fourth does not.
    def test_who_would_have_nothing_to_do_is_refused(self):
        run, process = self.begin("full", "--batch=3")
        first = self.join(run.folder)
        self.wait_for_workers(3, run, process)
        second = self.join(run.folder)
        _, err = second.communicate(timeout=PATIENCE)
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("the job takes no more than 3 workers", err)
        self.wait_for_step(run, run.last_step + 3, process)
        self.assertIsNone(first.poll())
        self.finish(process)
        self.assertEqual(run.summary["workers"], 3)

    # The run that is resumed lies elsewhere, and the new folder has no checkpoint yet.
    def test_a_resumed_run_without_a_checkpoint_of_its_own_goes_on_from_the_old_one(self):
        old, process = self.begin("old")
        self.finish(process)
        last = old.summary["step"]
        run = Run(self.path("new"))
        process = self.start("train", f"--resume={old.folder}", "--workers=3", "--shard=optimizer",
                             "--on-loss=continue", f"--out={run.folder}")
        self.wait_for_step(run, last + 3, process)
        self.assertEqual(run.checkpoints, [])
        os.kill(self.ranks(process)[1], signal.SIGKILL)
        self.wait_for_workers(2, run, process)
        self.finish(process)
        self.assertEqual(run.summary["workers"], 2)
        self.assertGreater(run.summary["step"], last)
        self.assertEqual(run.rows[last]["step"], last + 1)
        self.assertEqual(glob.glob(self.path("new.previous*")), [], "it is the same run")

    def test_where_nobody_who_is_left_sees_the_folder_the_run_ends(self):
        program = self.program_on_hosts(self.path("hidden"))
        run = Run(self.path("hidden/run"))
        process = self.start("run", "-n2", "--on-loss=continue", "--", program, PROGRAM, "train",
                             *ENDLESS, f"--out={run.folder}")
        self.wait_for_step(run, 6, process)
        os.kill(self.members()["rank 0"], signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1, out + err)
        self.assertIn(f"the first one that is left does not see {run.folder}", out + err)
        self.assertEqual(run.rows[-1]["step"], len(run.rows))  # nothing began anew

    def test_bad_input(self):
        said = self.refused("run", "--join=nobody", "-n1", "--", PROGRAM, "train")
        self.assertIn("no job of yours called 'nobody' runs on this host", said)
        said = self.refused("run", "--join=127.0.0.1:9", "-n1", "--", PROGRAM, "train")
        self.assertIn("set ASUP_KEY_FILE to the file with the job's key", said)
        said = self.refused("run", "--join", "", "-n1", "--", PROGRAM, "train")
        self.assertIn("--join: names no job", said)
        self.assertIn("--resume: names no folder", self.refused("train", "--resume", ""))
        said = self.refused("run", "--join=nobody", "--servers=1", "--", PROGRAM, "train")
        self.assertIn("--join adds workers to a job", said)
        said = self.refused("train", *SMALL, "--on-loss=continue", "--checkpoint-every=never",
                            "--shard=optimizer")
        self.assertIn("on-loss = continue goes on from the last checkpoint", said)
        run, process = self.begin("taken")
        said = self.refused("train", *ENDLESS, f"--out={run.folder}")
        self.assertIn("runs on this host already", said)
        self.finish(process)

    # It keeps no checkpoints, or names each worker.
    def test_a_job_that_takes_nobody_in(self):
        for name, flags in {"never": ["--checkpoint-every=never"],
                            "graph": ["--sync=adpsgd", "--graph=0-1"]}.items():
            with self.subTest(name):
                run, process = self.begin(name, *flags)
                newcomer = self.join(run.folder)
                _, err = newcomer.communicate(timeout=PATIENCE)
                self.assertEqual(newcomer.returncode, 2)
                self.assertIn("the job takes no newcomers in: it keeps no checkpoints", err)
                self.finish(process)
                self.assertEqual(run.summary["workers"], 2)

    def test_an_empty_key_file_is_none(self):
        self.environment["ASUP_KEY_FILE"] = ""
        self.assertTrue(self.train("run", "--steps=3").summary["finished"])

    # From elsewhere: by address and key, as from another host.
    def test_by_address_and_key(self):
        key = self.path("job.key")
        with open(key, "wb") as file:
            file.write(os.urandom(32))
        os.chmod(key, 0o600)
        self.environment["ASUP_KEY_FILE"] = key
        run = Run(self.path("remote"))
        port = self.free_port()
        process = self.start("run", f"--port={port}", "--grace=60", "-n2", "--", PROGRAM, "train", *ENDLESS,
                             f"--out={run.folder}")
        self.wait_for_step(run, 3, process)
        newcomer = self.join(f"127.0.0.1:{port}")
        self.wait_for_workers(3, run, process)
        self.assertIsNone(newcomer.poll())
        self.finish(process)
        self.assertEqual(run.summary["workers"], 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
