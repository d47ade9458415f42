"""Workers that go in step: one that is lost is done without, where they step on their own and, if
they are to, where they average gradients."""

import os
import re
import signal
import unittest

from harness import PATIENCE, SMALL, SOAK, Case, Run

# An epoch has 17 steps and 400 samples; of a step's 24 samples a worker of three has 8.
STEPS = 680
SAMPLES = 40 * 400
# Steps that a lost worker may have told nothing of: their rows are without its samples, or part of the
# next one's.
UNTOLD = 3

WAYS = {
    "local": ["--sync=local", "--every=4"],
    "local-auto": ["--sync=local", "--every=auto", "--optimizer=adam", "--lr=0.001"],
    "local-keep": ["--sync=local", "--merge-state=keep", "--local-after=30%", "--links=tcp"],
    "local-int4": ["--sync=local", "--every=4", "--exchange-dtype=int4", "--links=tcp"],
    "diloco-sparse": ["--sync=diloco", "--every=5", "--lr=0.01", "--exchange-density=0.25"],
    "diloco-streaming": ["--sync=diloco", "--every=6", "--lr=0.01", "--fragments=3",
                         "--outer-overlap=2", "--exchange-dtype=bf16", "--links=tcp"],
    "gossip": ["--sync=gossip", "--links=tcp"],
    "gossip-exponential": ["--sync=gossip", "--graph=exponential", "--every=2", "--exchange-dtype=int4"],
}


# By all-reduce, from memory: there are no checkpoints that could be gone back to.
TOGETHER = ["--on-loss=continue", "--checkpoint-every=never"]
GRADIENTS = {
    "sgd": ["--momentum=0.9"],
    "adam-tcp": ["--optimizer=adam", "--lr=0.001", "--links=tcp"],
    "balance": ["--balance"],
    "ema": ["--ema=0.9", "--clip-norm=1", "--buffers=average"],
    "int4": ["--compress=int4", "--links=tcp"],
}


# Seconds; twice as long, and a bit, until a worker that is stopped is done without.
LATE = "--timeout=8"


class Lost(Case):
    def begin(self, name, *flags, workers=3):
        run = Run(self.path(name))
        process = self.start("train", *SMALL, f"--workers={workers}", f"--steps={STEPS}", *flags,
                             f"--out={run.folder}")
        return run, process

    def kill(self, rank):
        os.kill(self.members()[f"rank {rank}"], signal.SIGKILL)

    def check_done(self, run, process, lost):
        """The run ends well, and its log has every step once."""
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn(f"epoch 40/40  step {STEPS}/{STEPS}  test accuracy", out)
        self.assertIn("/report.html", out)  # whoever is first now says how it ended
        names = ", ".join(f"rank {rank}" for rank in lost)
        self.assertRegex(err, r"done, but \d of \d workers (was|were) lost: ")
        for rank in lost:
            self.assertRegex(err, rf"warning \[rank \d\] rank {rank} was lost before step \d+", names)
        summary = run.summary
        self.assertTrue(summary["finished"])
        self.assertEqual(summary["lost"], lost)
        self.assertEqual(summary["step"], STEPS)
        rows = [row for row in run.rows if "loss" in row]
        steps = [row["step"] for row in rows]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], STEPS)
        self.assertLessEqual(STEPS - len(steps), UNTOLD * len(lost), steps)
        self.assertEqual(sum(row["samples"] for row in rows), summary["samples"])
        # All tell each other of every step, so nobody is more than two ahead of the lost one when it
        # is missed: only its parts of these steps, and of those that it had not told, are lost.
        self.assertLessEqual(summary["samples"], SAMPLES)
        self.assertGreaterEqual(summary["samples"], SAMPLES - 12 * 5 * len(lost))
        self.assertEqual([row["step"] for row in run.rows if "test_accuracy" in row][-1], STEPS)

    def check_resumes(self, run, workers=3):
        self.call("train", f"--resume={run.folder}", f"--steps={STEPS + 17}")
        self.assertTrue(run.summary["finished"])
        self.assertEqual(run.summary["step"], STEPS + 17)

    def test_every_way_goes_on(self):
        for name, flags in WAYS.items():
            with self.subTest(way=name):
                run, process = self.begin(name, *flags)
                self.wait_for_step(run, 20, process)
                self.kill(1)
                self.check_done(run, process, [1])
                self.check_resumes(run)

    # The next one keeps the run folder.
    def test_without_rank_0_too(self):
        for name in ("local", "diloco-streaming", "gossip"):
            with self.subTest(way=name):
                run, process = self.begin(name, *WAYS[name])
                self.wait_for_step(run, 20, process)
                self.kill(0)
                self.check_done(run, process, [0])
                self.check_resumes(run)

    # Each had an optimizer of its own, rank 0 too: by all-reduce, all go on with one.
    def test_a_checkpoint_without_rank_0_is_resumed_in_step(self):
        run, process = self.begin("run", *WAYS["gossip"], "--momentum=0.9")
        self.wait_for_step(run, 20, process)
        self.kill(0)
        self.check_done(run, process, [0])
        self.call("train", f"--resume={run.folder}", "--sync=allreduce", f"--steps={STEPS + 34}")
        self.assertEqual(run.summary["step"], STEPS + 34)

    # In the middle of a round, of a test, of a checkpoint: wherever it happens to be.
    def test_again_and_again(self):
        for number in range(21 if SOAK else 4):
            name = sorted(WAYS)[number % len(WAYS)]
            with self.subTest(way=name, number=number):
                run, process = self.begin(f"{name}-{number}", *WAYS[name], "--eval-every=5",
                                          "--checkpoint-every=7")
                self.wait_for_step(run, 17 + 11 * number, process)
                self.kill(number % 3)
                self.check_done(run, process, [number % 3])

    def test_one_after_the_other(self):
        run, process = self.begin("run", *WAYS["gossip"], workers=4)
        for step, rank in ((20, 2), (60, 0), (100, 3)):
            self.wait_for_step(run, step, process)
            self.kill(rank)
        self.check_done(run, process, [2, 0, 3])

    # The others wait for it as long as for anything else, and go on without it. It shares memory with
    # them and is ended by them, or is ended by the launcher.
    def test_a_stopped_worker_is_done_without(self):
        for name, flags, victim in (("sgd", [*TOGETHER, *GRADIENTS["sgd"]], 1),
                                    ("sgd-0", [*TOGETHER, *GRADIENTS["sgd"]], 0),
                                    ("tcp", [*TOGETHER, *GRADIENTS["adam-tcp"]], 1),
                                    ("tcp-0", [*TOGETHER, *GRADIENTS["adam-tcp"]], 0),
                                    ("local", WAYS["local"], 2),
                                    ("gossip", WAYS["gossip"], 0)):
            with self.subTest(way=name):
                run, process = self.begin(name, *flags, LATE)
                self.wait_for_step(run, 20, process)
                os.kill(self.members()[f"rank {victim}"], signal.SIGSTOP)
                self.check_done(run, process, [victim])

    def start_under_torchrun(self, run, *flags):
        """Three workers without a launcher, of which rank 0 keeps the coordinator."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.free_port()), "WORLD_SIZE": "3",
                 "LOCAL_WORLD_SIZE": "3"}
        alone = self.environment
        ranks = []
        for rank in range(3):
            self.environment = {**alone, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            ranks.append(self.start("train", *SMALL, *WAYS["local"], f"--steps={STEPS}", LATE, *flags,
                                    f"--out={run.folder}"))
        self.environment = alone
        self.wait_for_step(run, 20, ranks[0])
        return ranks

    # Nobody shares its memory, and no launcher sees to it.
    def test_one_that_wakes_is_told(self):
        run = Run(self.path("run"))
        ranks = self.start_under_torchrun(run, "--links=tcp")
        ranks[1].send_signal(signal.SIGSTOP)
        for rank in (0, 2):
            _, err = ranks[rank].communicate(timeout=PATIENCE)
            self.assertEqual(ranks[rank].returncode, 0, err)
        self.assertEqual(run.summary["lost"], [1])
        self.assertIsNone(ranks[1].poll())
        ranks[1].send_signal(signal.SIGCONT)
        _, err = ranks[1].communicate(timeout=PATIENCE)
        self.assertEqual(ranks[1].returncode, 1, err)
        self.assertRegex(err.splitlines()[-1], "the others go on without")

    # The coordinator is stopped with it: a majority goes on.
    def test_without_the_coordinator_a_majority_goes_on(self):
        run = Run(self.path("run"))
        ranks = self.start_under_torchrun(run)
        ranks[0].send_signal(signal.SIGSTOP)
        for rank in (1, 2):
            _, err = ranks[rank].communicate(timeout=PATIENCE)
            self.assertEqual(ranks[rank].returncode, 0, err)
        self.assertEqual(run.summary["lost"], [0])
        self.assertEqual(run.summary["step"], STEPS)
        ranks[0].wait(timeout=PATIENCE)
        self.assertEqual(ranks[0].returncode, -signal.SIGKILL)

    # Nothing but the lost one's losses of a step or two is missing: the same batches, of which the
    # others have more.
    def test_all_reduce_takes_the_step_again(self):
        for name, flags in GRADIENTS.items():
            for victim in (1, 0):
                with self.subTest(way=name, victim=victim):
                    whole = self.train(f"{name}-{victim}-whole", "--workers=3", "--steps=100", *flags)
                    run, process = self.begin(f"{name}-{victim}", *TOGETHER, *flags)
                    self.wait_for_step(run, 20, process)
                    self.kill(victim)
                    self.check_done(run, process, [victim])
                    if name == "int4":
                        continue
                    after = {row["step"]: row for row in run.rows if "loss" in row}
                    others = 0
                    for was in (row for row in whole.rows if row["step"] in after and "loss" in row):
                        now = after[was["step"]]
                        others += now["samples"] != was["samples"]
                        if now["samples"] == was["samples"]:
                            self.assertAlmostEqual(now["loss"], was["loss"], delta=1e-3 * was["loss"])
                    self.assertLessEqual(others, UNTOLD)

    # In the middle of a step, of a test, of sums: wherever it happens to be, and until one is left.
    def test_all_reduce_again_and_again(self):
        for number in range(21 if SOAK else 3):
            name = sorted(GRADIENTS)[number % len(GRADIENTS)]
            with self.subTest(way=name, number=number):
                run, process = self.begin(f"{name}-{number}", "--on-loss=continue", *GRADIENTS[name],
                                          "--eval-every=5", "--checkpoint-every=7")
                lost = [number % 3, (number + 1) % 3]
                for step, rank in zip((17 + 11 * number, 47 + 17 * number), lost):
                    self.wait_for_step(run, step, process)
                    self.kill(rank)
                self.check_done(run, process, lost)
                self.check_resumes(run)

    def test_all_reduce_ends(self):
        run, process = self.begin("run", "--sync=allreduce")
        self.wait_for_step(run, 20, process)
        self.kill(1)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1, err)
        self.assertTrue(re.search(r"rank 1 .* was killed by signal 9", err), err)


if __name__ == "__main__":
    unittest.main()
