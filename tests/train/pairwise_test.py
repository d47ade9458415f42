"""Training at one's own pace: averages of pairs, rounds of a given time, and what is lost."""

import collections
import glob
import os
import signal
import unittest

from harness import PATIENCE, SMALL, Case, Run

PACES = {
    "ring": ["--sync=adpsgd"],
    "random": ["--sync=adpsgd", "--graph=random", "--every=3", "--schedule=power",
               "--eta-min=0.5"],
    "edges": ["--sync=adpsgd", "--graph=0-1,1-2", "--links=tcp"],
    "exponential": ["--sync=adpsgd", "--graph=exponential", "--optimizer=adam", "--lr=0.01",
                    "--exchange-dtype=bf16", "--round-seconds=0.3"],
    "rounds": ["--sync=local", "--round-seconds=0.2"],
    "rounds-keep": ["--sync=local", "--round-seconds=0.2", "--merge-state=keep"],
}

# The same of 400 samples that are written down as they are read.
WATCHED = [flag for flag in SMALL if not flag.startswith(("--data", "--synthetic"))]
WATCHED.append("--data=" + os.environ["WATCHED_DATA"])


class OwnPace(Case):
    def samples_by_worker(self, run):
        """As the newest checkpoint has them."""
        return run.saved["run"]["samples_by_worker"]

    # An epoch has 17 steps, the last of them with 16 samples.
    def test_every_pace_trains_on_all_samples(self):
        for name, flags in PACES.items():
            with self.subTest(pace=name):
                run = self.train(name, "--workers=3", "--epochs=6", *flags)
                summary = run.summary
                self.assertTrue(summary["finished"])
                self.assertEqual(summary["step"], 102)
                self.assertEqual(summary["samples"], 2400)
                self.assertEqual(sum(row["samples"] for row in run.rows if "loss" in row),
                                 summary["samples"])
                self.assertEqual(sum(self.samples_by_worker(run)), summary["samples"])
                # How often workers meet depends on how fast they are, and so does where they end: a
                # merge of models that have been apart for long may be worse than each of them.
                self.assertLess(min(run.losses), 0.8 * run.losses[0])
                self.assertGreater(summary["consensus_distance"], 0)
                self.assertGreater(summary["bytes_sent"], 0)
                tests = [row["step"] for row in run.rows if "test_accuracy" in row]
                self.assertEqual(tests[-1], 102)
                with open(run.path("report.html")) as file:
                    self.assertIn('"consensus_distance"', file.read())

    # Each worker sees other samples. Without any exchange their models are far apart, and the mean of
    # them knows little; averages of pairs keep them together, and learn what all-reduce learns of as
    # many samples. Steps take their time by sleeps, so that partners find each other beside them however
    # busy the machine is.
    def test_pairs_stay_together_and_learn_what_all_reduce_does(self):
        def trained(name, *flags):
            return self.train(name, "--workers=3", "--epochs=6", *flags).summary

        reduced = {"sgd": trained("reduced"),
                   "adam": trained("reduced-adam", "--optimizer=adam", "--lr=0.01")}
        alone = trained("alone", "--sync=local", "--every=100000", "--eval-every=never",
                        "--checkpoint-every=never")
        self.assertGreater(reduced["sgd"]["test_accuracy"], 0.9)
        self.assertGreater(alone["consensus_distance"], 0.5)
        self.environment["ASUP_INJECTED_SLOWNESS"] = "sample_ms=3"
        for name in ("ring", "random", "edges", "exponential"):
            with self.subTest(graph=name):
                pairs = trained(name, *PACES[name])
                self.assertLess(pairs["consensus_distance"], 0.4 * alone["consensus_distance"])
                of_all = reduced["adam" if "--optimizer=adam" in PACES[name] else "sgd"]
                self.assertGreater(pairs["test_accuracy"], of_all["test_accuracy"] - 0.15)

    # By sleeps: one worker takes eight times as long for a sample.
    def test_a_slow_worker_does_less(self):
        for name in ("ring", "rounds"):
            with self.subTest(pace=name):
                run = self.train(name, "--workers=2", "--epochs=4", *PACES[name],
                                 ASUP_INJECTED_SLOWNESS="sample_ms=1 slow=1:8")
                fast, slow = self.samples_by_worker(run)
                self.assertGreater(fast, slow)
                self.assertGreater(slow, 0)

    def watched(self):
        """How often each epoch's samples were trained on, by (epoch, sample)."""
        times = collections.Counter()
        for path in glob.glob(self.path("watched.*")):
            with open(path) as file:
                for line in file:
                    epoch, *samples = map(int, line.split())
                    if samples != list(range(len(samples))):  # a look at the data set
                        times.update((epoch, sample) for sample in samples)
            os.remove(path)
        return times

    # By sleeps: one worker takes eight times as long for a sample.
    def test_an_epoch_is_one_pass_over_the_data(self):
        for name, *flags in (
                ["ring", *PACES["ring"], "--workers=3"],
                ["rounds", *PACES["rounds"], "--workers=2", "--eval-every=5"]):
            with self.subTest(pace=name):
                run = Run(self.path(name))
                self.call("train", *WATCHED, "--epochs=3", *flags, f"--out={run.folder}",
                          WATCHED=self.path("watched"),
                          ASUP_INJECTED_SLOWNESS="sample_ms=1 slow=1:8")
                times = self.watched()
                self.assertEqual(set(times.values()), {1})
                for epoch in range(3):
                    self.assertEqual(sum(1 for of, _ in times if of == epoch), 400)
                counts = self.samples_by_worker(run)
                self.assertLess(counts[1], 0.7 * counts[0])

    # Of 400 samples 16 fill no batch, or eight of the first ones fill theirs up.
    def test_what_fills_no_batch_is_left_out_or_filled_up(self):
        for name in ("ring", "rounds"):
            for remainder, steps, once, twice in (("drop", 16, 384, 0), ("pad", 17, 392, 8)):
                with self.subTest(pace=name, remainder=remainder):
                    run = Run(self.path(f"{name}-{remainder}"))
                    self.call("train", *WATCHED, *PACES[name], "--workers=3", "--epochs=3",
                              f"--remainder={remainder}", f"--out={run.folder}",
                              WATCHED=self.path("watched"))
                    self.assertEqual(run.summary["steps_per_epoch"], steps)
                    self.assertEqual(run.summary["samples"], 3 * (once + 2 * twice))
                    times = self.watched()
                    for epoch in range(3):
                        counts = [count for (of, _), count in times.items() if of == epoch]
                        self.assertEqual((counts.count(1), counts.count(2)), (once, twice))

    # It is killed in the middle of a step, and others take that step's samples: these may have been
    # read twice, and no others.
    def test_what_a_lost_worker_left_is_done_by_the_others(self):
        self.environment["WATCHED"] = self.path("watched")
        self.environment["ASUP_INJECTED_SLOWNESS"] = "sample_ms=5 slow=1:2"
        for lost in 1, 0:
            with self.subTest(lost=lost):
                run = Run(self.path(f"lost-{lost}"))
                process = self.start("train", *WATCHED, *PACES["ring"], "--workers=3", "--steps=51",
                                     f"--out={run.folder}")
                self.wait_for_step(run, 17, process)
                os.kill(self.members()[f"rank {lost}"], signal.SIGKILL)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 0, err)
                self.assertTrue(run.summary["finished"])
                times = self.watched()
                for epoch in range(3):
                    self.assertEqual(sum(1 for of, _ in times if of == epoch), 400)
                twice = [key for key, count in times.items() if count > 1]
                # The step that it was in, and what it had read for the next.
                self.assertLessEqual(len(twice), 2 * 9 if lost == 1 else 400)
                self.assertLessEqual(max(times.values()), 2)
                self.assertEqual({epoch for epoch, _ in twice} - {1, 2}, set())

    # It deals the samples out, and is halted early in an epoch: the others go on with those that they
    # have ahead. A step takes them 0.16 s, by sleeps.
    def test_workers_go_on_while_the_first_is_halted(self):
        self.environment["WATCHED"] = self.path("watched")
        self.environment["ASUP_INJECTED_SLOWNESS"] = "sample_ms=20"
        process = self.start("train", *WATCHED, *PACES["ring"], "--workers=3", "--steps=34",
                             "--out=" + self.path("halted"))

        def reads():
            counts = {}
            for path in glob.glob(self.path("watched.*")):
                with open(path) as file:
                    counts[path] = file.read().count("\n")
            return counts

        self.wait_for(lambda: sum(reads().values()) >= 7, process, "first steps")
        first = self.members()["rank 0"]
        os.kill(first, signal.SIGSTOP)
        try:
            before = reads()
            self.wait_for(lambda: sum(count >= before[path] + 2
                                      for path, count in reads().items()) == 2, process,
                          "steps of the others")
        finally:
            os.kill(first, signal.SIGCONT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(set(self.watched().values()), {1})

    # Here the other one does all the work of the run while it takes its first step.
    def test_a_worker_is_not_called_too_slow_by_its_first_step(self):
        run = self.train("run", "--workers=2", "--synthetic-samples=48", "--epochs=1",
                         "--sync=local", "--round-seconds=2",
                         ASUP_INJECTED_SLOWNESS="sample_ms=0.1 slow=1:2000")
        self.assertTrue(run.summary["finished"])
        self.assertLess(self.samples_by_worker(run)[1], 3 * 12)

    def test_a_lost_worker_is_done_without(self):
        for name in ("ring", "rounds"):
            with self.subTest(pace=name):
                run = Run(self.path(name))
                process = self.start("train", *SMALL, *PACES[name], "--workers=3",
                                     "--steps=3400", f"--out={run.folder}")
                self.wait_for_step(run, 17, process)
                os.kill(self.members()["rank 1"], signal.SIGKILL)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 0, err)
                self.assertRegex(err, r"rank 1 was lost before step \d+: 2 of 3 workers go on")
                self.assertIn("done, but 1 of 3 workers was lost: rank 1", err)
                self.assertTrue(run.summary["finished"])
                counts = self.samples_by_worker(run)
                self.assertGreaterEqual(sum(counts), 80000)
                self.assertLess(counts[1], min(counts[0], counts[2]))
                # Three workers go on from there: the lost one's samples are known.
                self.call("train", f"--resume={run.folder}", "--steps=3417")
                self.assertTrue(run.summary["finished"])

    def test_without_rank_0_the_next_keeps_the_run_folder(self):
        for name in ("ring", "rounds"):
            with self.subTest(pace=name):
                run = Run(self.path(name))
                process = self.start("train", *SMALL, *PACES[name], "--workers=2", "--steps=1700",
                                     "--eval-every=17", f"--out={run.folder}")
                self.wait_for_step(run, 17, process)
                os.kill(self.members()["rank 0"], signal.SIGKILL)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 0, err)
                self.assertRegex(err, r"\[rank 1\] rank 0 was lost before step \d+: 1 of 2 workers go")
                self.assertTrue(run.summary["finished"])
                steps = [row["step"] for row in run.rows if "loss" in row]
                self.assertEqual(steps, sorted(set(steps)))
                self.assertEqual(steps[-1], 1700)

    def test_a_run_goes_on_from_its_checkpoint(self):
        for name in ("ring", "rounds"):
            with self.subTest(pace=name):
                run = self.train(name, "--workers=2", "--steps=68", *PACES[name], "--stop-at=34")
                self.assertFalse(run.summary["finished"])
                before = self.samples_by_worker(run)
                self.call("train", f"--resume={run.folder}")
                self.assertTrue(run.summary["finished"])
                self.assertEqual(run.summary["step"], 68)
                after = self.samples_by_worker(run)
                self.assertTrue(all(a >= b for a, b in zip(after, before)), (before, after))
                self.assertEqual(sum(after), 1600)
                self.assertEqual(sum(after), run.summary["samples"])

    # A checkpoint has each worker's model, but where all have merged: at the end of a round or of
    # the run.
    def test_only_rounds_and_the_end_merge(self):
        def models(run):
            return sorted({name.partition("model/")[0] for name in run.saved["tensors"]
                           if "model/" in name})

        own = ["", "rank-0/", "rank-1/"]
        for name, kept in (("ring", [own]), ("rounds", [own, own[:1]])):
            with self.subTest(pace=name):
                run = self.train(name, "--workers=2", "--steps=68", *PACES[name], "--stop-at=34")
                self.assertIn(models(run), kept)
                self.call("train", f"--resume={run.folder}")
                self.assertEqual(models(run), own[:1])
                # Stopped where it turns out to be done, it has yet to merge.
                early = self.train(f"{name}-early", "--workers=2", "--steps=68", *PACES[name],
                                   "--stop-at=34")
                self.call("train", f"--resume={early.folder}", "--steps=34")
                self.assertTrue(early.summary["finished"])
                self.assertIn("test_accuracy", early.summary)

    def test_a_run_may_change_its_way(self):
        run = self.train("run", "--workers=2", "--steps=20")
        steps = 20
        for flags in (PACES["ring"], PACES["rounds"], ["--sync=allreduce"]):
            steps += 10
            self.call("train", f"--resume={run.folder}", f"--steps={steps}", *flags)
            self.assertEqual(run.summary["step"], steps)

    def test_ctrl_c_stops_soon_and_can_be_resumed(self):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, "--sync=adpsgd", "--workers=2",
                             "--synthetic-samples=2400000", "--steps=100000", "--eval-every=never",
                             "--checkpoint-every=100000", f"--out={run.folder}")
        self.wait_for_file(run.path("metrics.jsonl"), process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        step = run.summary["step"]
        self.assertLess(step, 100000)
        self.assertEqual(len(run.checkpoints), 1)
        self.call("train", f"--resume={run.folder}", f"--steps={step + 5}")
        self.assertTrue(run.summary["finished"])

    def test_a_diverged_run_says_so(self):
        done = self.call("train", *SMALL, "--sync=adpsgd", "--workers=2", "--steps=200",
                         "--lr=1000", "--weight-decay=10", "--non-finite=apply",
                         f"--out={self.path('run')}", status=1)
        self.assertIn("training has diverged", done.stderr)

    def test_bad_input(self):
        def refused(*flags):
            return self.refused("train", *SMALL, *flags, f"--out={self.path('refused')}")

        self.assertIn("'0-1,2-3' is not connected: nothing reaches rank 2, 3 from rank 0",
                      refused("--sync=adpsgd", "--workers=4", "--graph=0-1,2-3"))
        self.assertIn("there is no rank 7", refused("--sync=adpsgd", "--graph=0-7"))
        self.assertIn("'star' is no edge", refused("--sync=adpsgd", "--graph=star"))
        self.assertIn("sync = adpsgd takes 2 workers at least", refused("--sync=adpsgd", "--workers=1"))
        self.assertIn("round-seconds = 1 has no effect", refused("--round-seconds=1"))
        self.assertIn("eta-min = 2 has no effect", refused("--eta-min=2"))
        self.assertRegex(
            refused("--sync=local", "--workers=2", "--round-seconds=0.00001"),
            r"round-seconds = 1e-05 is shorter than a step, which takes [\d.e-]+ s on the slowest")


if __name__ == "__main__":
    unittest.main()
