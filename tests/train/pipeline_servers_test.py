"""A pipeline through servers: groups of workers, each with a whole model among them, push and get parameters at the
servers' pace. In step they learn what one process learns; at any pace they learn."""

import os
import signal
import unittest

from harness import PATIENCE, SMALL, Run
from spread_case import GPT, SpreadCase

DEEP = ["--depth=4", "--steps=30"]
TWO = ["--workers=2", "--pipeline=2", "--pipeline-cut=even"]
GRID = ["--workers=4", "--pipeline=2", "--pipeline-cut=even", "--microbatches=3"]
SERVERS = ["--sync=server", "--servers=2"]


class InStep(SpreadCase):
    def test_they_learn_what_one_process_learns(self):
        for optimizer in "sgd", "adam", "lars":
            flags = [*DEEP, f"--optimizer={optimizer}"]
            alone = self.train(f"{optimizer} one", *flags, "--workers=1")
            for name, more in (("two", TWO), ("zb1p", [*TWO, "--pipeline-schedule=zb1p"]), ("four", GRID),
                               ("interleaved", [*GRID, "--pipeline-schedule=interleaved"])):
                with self.subTest(optimizer=optimizer, grid=name):
                    run = self.train(f"{optimizer} {name}", *flags, *more, *SERVERS)
                    self.assert_same_course(run, alone)
                    self.assertEqual(run.summary["samples"], 29 * 24 + 16)
                    self.assertEqual(run.summary["server"]["updates"], 30)
                    self.assertEqual(run.summary["server"]["worst_staleness"], 0)
                    # To the pace a group is one.
                    self.assertEqual(len(run.summary["server"]["workers"]), 2 if "--workers=4" in more else 1)

    # The first and the last stage have a copy of one matrix, whose gradient counts once in the norm.
    def test_a_language_model_with_a_matrix_in_two_stages(self):
        flags = [*GPT, self.write_book(), "--steps=15", "--clip-norm=0.5"]

        def train(name, *more):
            self.call("train", *flags, *more, f"--out={self.path(name)}")
            return Run(self.path(name))

        alone = train("one", "--workers=1")
        for name, more in ("two", TWO), ("four", [*GRID[:-1], "--microbatches=4"]):
            with self.subTest(name):
                run = train(name, *more, *SERVERS)
                self.assert_same_losses(run, alone)
                self.assertTrue(os.path.exists(run.path("generated.json")))

    # The first stage has matrices alone, which have rules of their own beside those of vectors.
    def test_a_stage_without_vectors(self):
        flags = [*GPT, self.write_book(), "--steps=10", "--optimizer=lamb", "--lr=0.005"]
        alone, two = Run(self.path("one")), Run(self.path("two"))
        self.call("train", *flags, "--workers=1", f"--out={alone.folder}")
        self.call("train", *flags, "--workers=2", "--pipeline=2", "--pipeline-cut=1,4", *SERVERS, f"--out={two.folder}")
        self.assert_same_losses(two, alone)

    def test_batch_norm_of_a_micro_batch(self):
        flags = ["--model=resnet18", "--width=auto", "--synthetic-shape=3x8x8", "--synthetic-samples=24", "--batch=12",
                 "--steps=4", "--lr=0.00005", "--conv-path=onednn"]
        portions = self.train("portions", *flags, "--workers=1", "--accumulate=3")
        run = self.train("run", *flags, *TWO, "--microbatches=3", *SERVERS)
        self.assert_same_course(run, portions, within=1e-3)


class AtAnyPace(SpreadCase):
    def test_groups_learn(self):
        flags = ["--depth=2", "--epochs=8", "--lr=0.1", "--momentum=0"]
        for name, more in (("ssp", ["--sync=server", "--pace=ssp", "--staleness=2"]),
                           ("asp", ["--sync=server", "--pace=asp", "--servers=2"]),
                           ("kasync", ["--sync=server", "--pace=kasync", "--gather=2"]),
                           ("compensation", ["--sync=server", "--pace=asp", "--compensation=0.04", "--clip-norm=1"]),
                           ("asup", ["--sync=asup"])):
            with self.subTest(name):
                run = self.train(name, *flags, *GRID, *more)
                self.assertLess(run.losses[-1], 0.7 * run.losses[0])
                self.assertEqual(run.summary["samples"], 8 * 400)
                server = run.summary["server"]
                # An adaptive pace may leave out pushes that come late.
                self.assertEqual(server["samples"] + server["samples_dropped"], 8 * 400)
                self.assertEqual(len(server["workers"]), 2)

    def test_a_slow_group_does_less(self):
        run = self.train("run", "--depth=2", "--epochs=2", *GRID, "--sync=server", "--pace=asp",
                         ASUP_INJECTED_SLOWNESS="sample_ms=2 slow=1:8 slow=3:8")
        samples = [worker["samples"] for worker in run.summary["server"]["workers"]]
        self.assertEqual(sum(samples), 800)
        self.assertLess(2 * samples[1], samples[0])


class GoesOn(SpreadCase):
    def test_to_the_same_bits(self):
        self.check_same_bits_when_resumed([*DEEP, "--optimizer=adam", *GRID, *SERVERS])

    def test_on_any_other_grid_and_by_another_way(self):
        flags = ["--depth=4", "--steps=20", "--optimizer=adam"]
        alone = self.train("alone", *flags, "--workers=1")
        whole = ["--workers=2", "--pipeline=1", *SERVERS]
        three = ["--workers=3", "--pipeline=3", *SERVERS]
        for i, (before, after) in enumerate([([*GRID, *SERVERS], three), (three, whole), (whole, [*GRID, *SERVERS]),
                                             ([*GRID, *SERVERS], ["--sync=allreduce", "--servers=0"]),
                                             (TWO, SERVERS)]):
            with self.subTest(before=before, after=after):
                run = self.train(f"run {i}", *flags, *before, "--stop-at=11")
                self.resume(run, *after)
                self.assert_same_course(run, alone)


class WhatDoesNotGo(SpreadCase):
    def test_is_refused_with_a_reason(self):
        for flags in (["--merge=easgd"], ["--backup=1"], ["--compress=int8"], ["--local-parameters=output."]):
            with self.subTest(flags):
                self.assertIn("through servers (sync = server or asup) without merge, backup, compress and "
                              "local-parameters; or leave pipeline out.",
                              self.refused("train", *SMALL, *GRID, "--sync=server", *flags))
        self.assertIn("gather = 3: an update cannot take more pushes than there are workers, which are 2",
                      self.refused("train", *SMALL, *GRID, "--sync=server", "--pace=kasync", "--gather=3"))
        self.assertIn("through servers, a group of pipeline = 2 cannot go on without a worker that is lost",
                      self.refused("train", *SMALL, *GRID, "--sync=server", "--on-loss=continue"))


class Faults(SpreadCase):
    def start_endless(self, name, *flags):
        run = Run(self.path(name))
        process = self.start("train", *SMALL, "--epochs=20000", *GRID, "--eval-every=never", *SERVERS, *flags,
                             f"--out={run.folder}")
        self.wait_for_step(run, 5, process)
        return run, process

    def test_a_killed_member_is_named(self):
        for member, pace in ("rank 2", "asp"), ("rank 0", "bsp"), ("server 1", "asp"):
            with self.subTest(member=member, pace=pace):
                _, process = self.start_endless(member, f"--pace={pace}")
                os.kill(self.members()[member], signal.SIGKILL)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 1)
                self.assertRegex(err.strip().splitlines()[-1], rf"^asup train: {member} .*was killed by signal 9")
                self.check_nothing_left()

    def test_it_stops_where_it_is_asked_to_and_goes_on(self):
        run, process = self.start_endless("run", "--pace=asp")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130)
        step = run.summary["step"]
        self.resume(run, f"--stop-at={step + 10}")
        self.assertEqual(run.summary["step"], step + 10)


if __name__ == "__main__":
    unittest.main()
