"""Bad input is refused with a sentence that helps; what breaks a run ends it cleanly."""

import os
import re
import signal
import unittest

from harness import PATIENCE, SMALL, Case, Run

ENDLESS = ["--steps=1000000", "--workers=3", "--eval-every=never"]


class BadInput(Case):
    def test_flags(self):
        self.assertEqual(self.refused("train", "--wrokers=2"),
                         "asup train: unknown flag --wrokers; did you mean '--workers'?")
        self.assertIn("--batch: 0 is out of range (allowed: 1 …", self.refused("train", "--batch=0"))
        self.assertIn("--batch: -5 is out of range", self.refused("train", "--batch", "-5"))
        self.assertIn("--lr: 'fast' is not a number", self.refused("train", "--lr=fast"))
        self.assertIn("did you mean 'allreduce'?", self.refused("train", "--sync=allreduse"))
        self.assertIn("'somewhere' was not expected", self.refused("train", "somewhere"))
        self.assertIn("batch 3 is smaller than workers 4",
                      self.refused("train", "--batch=3", "--workers=4"))

    def test_files(self):
        def refused(text):
            with open(self.path("job.toml"), "w") as file:
                file.write(text)
            return self.refused("train", "--config=job.toml")

        self.assertEqual(refused("lr = 0.1\nmomentun = 0.9\n"),
                         "asup train: job.toml:2: momentun: there is no such setting; did you mean "
                         "'momentum'?")
        self.assertIn("job.toml:1: lr: 'fast' is not a number", refused('lr = "fast"\n'))
        self.assertIn("job.toml:1: ", refused("lr = \n"))
        self.assertIn("none.toml: cannot be read (No such file or directory)",
                      self.refused("train", "--config=none.toml"))

    def test_names_and_places(self):
        self.assertIn("did you mean 'resnet18'?", self.refused("train", "--model=resnet81"))
        self.assertIn("/no/such/data", self.refused("train", "--data=/no/such/data"))
        self.assertIn("/no/such/data", self.refused("train", "--data=/no/such/data", "--workers=1"))
        with open(self.path("file"), "w") as file:
            file.write("precious")
        self.assertIn("is a file", self.refused("train", *SMALL, "--out=file/run"))
        self.assertIn("holds something that is not a run",
                      self.refused("train", *SMALL, f"--out={self.place}"))
        self.assertIn("is not a run folder", self.refused("report", self.place))
        with open(self.path("file")) as file:
            self.assertEqual(file.read(), "precious")

    # As by `| head -1`.
    def test_a_reader_that_has_seen_enough_ends_nothing(self):
        process = self.start("train", *SMALL, "--workers=2", "--epochs=5", f"--out={self.path('run')}")
        process.stdout.readline()
        process.stdout.close()
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, err)
        self.assertTrue(Run(self.path("run")).summary["finished"])

    def test_a_warm_up_longer_than_the_run(self):
        self.assertIn("warmup = 11 is longer than the run, which has 10 steps",
                      self.refused("train", *SMALL, "--steps=10", "--warmup=11"))

    def test_what_only_workers_find(self):
        self.assertIn("all_reduce has no algorithm 'star'",
                      self.refused("train", *SMALL, "--workers=2", "--algorithm=star"))

    def test_a_config_is_run_again_from_its_run_folder(self):
        first = self.train("first", "--steps=5", "--workers=2")
        self.call("train", f"--config={first.path('config.toml')}", "--out=second")
        self.assertEqual(Run(self.path("second")).sha, first.sha)


class Faults(Case):
    # /dev/full answers every write as a full disk does.
    def test_a_full_disk_keeps_the_checkpoint_before(self):
        flags = ["--steps=30", "--workers=2", "--checkpoint-every=10"]
        whole = self.train("whole", *flags)
        run = self.train("run", *flags, "--stop-at=10")
        unfinished = run.path("checkpoints/.step-00000020.tmp")
        os.mkdir(unfinished)
        os.symlink("/dev/full", os.path.join(unfinished, "shard-2-of-2.safetensors"))
        done = self.call("train", f"--resume={run.folder}", status=1)
        self.assertRegex(done.stderr.strip().splitlines()[-1],
                         r"^asup train: .*/shard-2-of-2.safetensors: cannot be written "
                         r"\(No space left on device\)")
        self.assertEqual([os.path.basename(path) for path in run.checkpoints],
                         ["step-00000010"])
        self.call("train", f"--resume={run.folder}")
        self.assertEqual(run.sha, whole.sha)

    # Its last row is there, and its loss is no number.
    def test_a_diverged_run_ends_with_its_last_step(self):
        for log_every in 1, 1000:
            with self.subTest(log_every=log_every):
                run = self.train("run", "--workers=2", "--lr=1000", "--steps=200",
                                 f"--log-every={log_every}", status=1)
                with open(run.path("failure.txt")) as file:
                    step = int(re.search(r"in step (\d+): training has diverged", file.read())[1])
                self.assertEqual(run.rows[-1]["step"], step)
                self.assertEqual(run.rows[-1]["loss"] is None, log_every == 1)
                said = self.call("report", run.folder).stdout
                self.assertIn(f"failed after step {step} of 200", said)

    def test_a_diverged_run_says_so(self):
        done = self.call("train", *SMALL, "--steps=200", "--workers=2", "--lr=1000",
                         f"--out={self.path('run')}", status=1)
        self.assertRegex(done.stderr.strip().splitlines()[-1],
                         r"^asup train: .*the loss became -?(nan|inf) in step \d+: training has "
                         r"diverged. A lower learning rate \(lr is 1000\)")

    def start_endless(self, *flags):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, *ENDLESS, *flags, f"--out={run.folder}")
        self.wait_for_step(run, 5, process)
        return run, process

    # At once: not when the others have waited for it as long as they may.
    def test_a_killed_rank_ends_the_job(self):
        _, process = self.start_endless("--timeout=1000")
        workers = self.members()
        self.assertEqual(sorted(workers), ["rank 0", "rank 1", "rank 2"])
        before = set(os.listdir("/dev/shm"))
        pid = workers["rank 1"]
        os.kill(pid, signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1, err)
        self.assertRegex(err.strip().splitlines()[-1],
                         rf"^asup train: rank 1 \(pid {pid} on .*\) was killed by signal 9")
        self.check_nothing_left()
        self.assertEqual([name for name in os.listdir("/dev/shm")
                          if name not in before and "asup" in name], [])

    def test_ctrl_c_stops_and_can_be_resumed(self):
        run, process = self.start_endless()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("Ctrl-C", err.strip().splitlines()[-1])
        self.assertGreaterEqual(len(run.checkpoints), 1)
        self.call("train", f"--resume={run.folder}", f"--steps={run.summary['step'] + 5}")
        self.assertTrue(run.summary["finished"])


if __name__ == "__main__":
    unittest.main()
