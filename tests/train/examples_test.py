"""The program for one process and its twin for several: six lines apart, and both learn."""

import gzip
import os
import re
import signal
import subprocess
import sys
import unittest

from harness import PROGRAM, Case

SINGLE, DISTRIBUTED, LOOP, PIPELINE, STREAM = os.environ["ASUP_EXAMPLES"].split(":")
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")


class Examples(Case):
    def test_six_lines_differ(self):
        diff = subprocess.run(["diff", "mnist_single.cpp", "mnist_distributed.cpp"], cwd=SOURCES,
                              stdout=subprocess.PIPE, text=True).stdout
        new = [line[2:].strip() for line in diff.splitlines() if line.startswith(">")]
        old = [line[2:].strip() for line in diff.splitlines() if line.startswith("<")]
        self.assertEqual(len(new), 6, diff)
        self.assertEqual(len(old), 2, diff)
        for line, start in zip(new, ("#include <asup/asup.h>", "auto job = asup::Job::join();",
                                     "auto loader = ", "auto replica = asup::distribute(",
                                     "replica->step();", "replica->synchronize();")):
            self.assertTrue(line.startswith(start), line)

    def some_data(self, images):
        """A folder with the first images of Fashion-MNIST, and 2000 to test."""
        whole = os.environ.get("ASUP_FASHION_MNIST", "/usr/share/datasets/fashion-mnist")
        os.mkdir(self.path("data"))
        for part, count in ("train", images), ("t10k", 2000):
            for name, header, size in ("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1):
                file = f"{part}-{name}-ubyte.gz"
                with gzip.open(os.path.join(whole, file)) as source, \
                        gzip.open(os.path.join(self.path("data"), file), "wb", 1) as target:
                    target.write(source.read(header + count * size))
        return self.path("data")

    def last_epochs(self, *command):
        """(steps, accuracy) of the last epoch, of each process that tells."""
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [(int(steps), float(accuracy)) for steps, accuracy in
                re.findall(r"epoch 1: (\d+) steps, loss [\d.]+, test accuracy ([\d.]+)", done.stdout)]

    def test_layers_are_spread_over_ranks(self):
        folder = self.some_data(128 * 60)
        # One that streams begins more slowly.
        for program, least in (([PIPELINE, folder, "1", "1f1b"], 0.6), ([PIPELINE, folder, "1", "zb1p"], 0.6),
                               ([STREAM, folder], 0.3)):
            with self.subTest(program):
                learned = self.last_epochs(PROGRAM, "run", "-n", "2", "--", *program)
                self.assertEqual([steps for steps, _ in learned], [60])
                self.assertGreater(learned[0][1], least)

    def test_both_learn(self):
        folder = self.some_data(64 * 250)
        alone = self.last_epochs(SINGLE, folder, "1", "64")
        together = self.last_epochs(PROGRAM, "run", "-n", "2", "--", DISTRIBUTED, folder, "1", "32")
        served = self.last_epochs(PROGRAM, "run", "-n", "2", "--servers", "1", "--env",
                                  "ASUP_SYNC=server", "--", DISTRIBUTED, folder, "1", "32")
        self.assertEqual([steps for steps, _ in alone], [250])
        self.assertGreater(alone[0][1], 0.7)
        apart = self.last_epochs(PROGRAM, "run", "-n", "2", "--env", "ASUP_SYNC=diloco", "--",
                                 DISTRIBUTED, folder, "1", "32")
        for several in (together, served, apart):
            self.assertEqual([steps for steps, _ in several], [250, 250])
            self.assertGreater(several[0][1], 0.7)
            self.assertEqual(several[0][1], several[1][1])  # one model

    def test_a_way_that_ends_with_a_loss_says_so_at_the_start(self):
        folder = self.some_data(64 * 4)
        for shard, said in ("optimizer", True), ("none", False):
            done = subprocess.run([PROGRAM, "run", "-n", "2", "--on-loss", "continue", "--env", f"ASUP_SHARD={shard}",
                                   "--", DISTRIBUTED, folder, "1", "32"], env=self.environment,
                                  stderr=subprocess.PIPE, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("--on-loss continue: by sync = allreduce, as it is set, workers cannot go on"
                             in done.stderr, said, done.stderr)

    def accuracies(self, out):
        return dict(re.findall(r"epoch (\d+): loss [\d.]+, test accuracy ([\d.]+)", out))

    def loop(self, folder, data, *flags):
        done = self.call("run", "-n", "2", *flags, "--", LOOP, self.path(folder), "4", "32", data)
        return self.accuracies(done.stdout), done.stdout

    # 40 steps an epoch, and a checkpoint after 50, 100 and 150.
    def test_a_loop_of_ones_own_goes_on_where_it_was_killed(self):
        data = self.some_data(128 * 40)
        whole, _ = self.loop("whole", data)
        self.assertGreater(float(whole["4"]), 0.7)
        process = self.start("run", "-n", "2", "--", LOOP, self.path("run"), "4", "32", data)
        self.wait_for_file(self.path("run/step-00000050"), process)
        process.kill()
        process.communicate()
        resumed, out = self.loop("run", data)
        self.assertRegex(out, "goes on after step (50|100|150)")
        self.assertEqual(resumed["4"], whole["4"])
        three = self.call("run", "-n", "3", "--", LOOP, self.path("run"), "5", "32", data)
        self.assertEqual(list(self.accuracies(three.stdout)), ["5"])

    def test_a_loop_of_ones_own_learns_by_every_way(self):
        data = self.some_data(128 * 40)
        for flags in (["--env", "ASUP_SYNC=diloco"],
                      ["--servers", "1", "--env", "ASUP_SYNC=server", "--env", "ASUP_PACE=asp"]):
            with self.subTest(flags=flags):
                found, _ = self.loop("-".join(flags), data, *flags)
                self.assertGreater(float(found["4"]), 0.6)

    # One is lost in the second epoch: step() regroups, and the program knows nothing of it.
    def test_those_who_are_left_finish(self):
        folder = self.some_data(3 * 64 * 80)
        process = self.start("run", "-n", "3", "--on-loss", "continue", "--env", "ASUP_SYNC=local",
                             "--", DISTRIBUTED, folder, "2", "64")
        while "epoch 1:" not in process.stdout.readline():
            self.assertIsNone(process.poll(), "the program ended too early")
        os.kill(self.members()["rank 1"], signal.SIGKILL)
        out, err = process.communicate(timeout=300)
        self.assertIn("rank 1 was lost: 2 workers go on", err)
        accuracies = re.findall(r"epoch 2: \d+ steps, loss [\d.]+, test accuracy ([\d.]+)", out)
        self.assertEqual(len(accuracies), 2, out + err)
        self.assertGreater(min(map(float, accuracies)), 0.6)


if __name__ == "__main__":
    unittest.main()
