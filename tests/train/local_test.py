"""Training with little communication: workers step on their own, and exchange models."""

import re
import signal
import unittest

from harness import PATIENCE, SMALL, Case, Run

WAYS = {
    "local": ["--sync=local", "--every=4"],
    "local-auto": ["--sync=local", "--every=auto", "--schedule=cosine"],
    "local-keep": ["--sync=local", "--merge-state=keep", "--local-after=30%"],
    "local-int4": ["--sync=local", "--every=4", "--exchange-dtype=int4"],
    "diloco": ["--sync=diloco", "--every=8", "--lr=0.01"],
    "diloco-int8": ["--sync=diloco", "--every=8", "--lr=0.01", "--exchange-dtype=int8"],
    "diloco-sparse": ["--sync=diloco", "--every=4", "--lr=0.01", "--exchange-dtype=f32",
                      "--exchange-density=0.25"],
    "diloco-streaming": ["--sync=diloco", "--every=6", "--fragments=3", "--outer-overlap=2",
                         "--exchange-density=0", "--exchange-dtype=bf16"],
    "gossip": ["--sync=gossip"],
    "gossip-exponential": ["--sync=gossip", "--graph=exponential", "--every=2", "--exchange-dtype=int8"],
    "local-reset": ["--sync=local", "--merge-state=reset", "--jitter-ms=1"],
}


class OwnSteps(Case):
    # An epoch has 17 steps, the last of them with 16 samples: 6 for the first worker of three.
    def test_every_way_trains_on_all_samples(self):
        for name, flags in WAYS.items():
            with self.subTest(way=name):
                run = self.train(name, "--workers=3", "--epochs=4", *flags)
                summary = run.summary
                self.assertTrue(summary["finished"])
                self.assertEqual((summary["step"], summary["samples"]), (68, 1600))
                self.assertEqual(len(run.losses), 68)
                self.assertLess(sum(run.losses[-10:]), 0.75 * sum(run.losses[:10]))
                self.assertGreater(summary["test_accuracy"], 0.5)
                self.assertGreater(summary["consensus_distance"], 0)
                rows = [row for row in run.rows if "consensus_distance" in row]
                self.assertGreater(sum(row["merges"] for row in rows), 4)
                with open(run.path("report.html")) as file:
                    self.assertIn('"consensus_distance"', file.read())

    def test_merged_after_every_step_it_is_all_reduce(self):
        reduced = self.train("reduced", "--workers=2", "--steps=40")
        local = self.train("local", "--workers=2", "--steps=40", "--sync=local", "--every=1")
        self.assertEqual(len(local.losses), 40)
        for a, b in zip(reduced.losses, local.losses):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def test_a_merge_is_in_the_row_of_its_step(self):
        run = self.train("run", "--workers=2", "--steps=12", "--sync=local", "--every=5")
        merges = {row["step"]: row["merges"] for row in run.rows if row.get("merges")}
        self.assertEqual(merges, {5: 1, 10: 1, 12: 1})

    def test_fewer_merges_send_less(self):
        def sent(name, *flags):
            flags = ["--workers=2", "--steps=64", "--synthetic-samples=3000", "--width=128",
                     "--checkpoint-every=never", *flags]
            return self.train(name, *flags).summary["bytes_sent"]

        often = sent("often", "--sync=local", "--every=1", "--merge-state=keep")
        seldom = sent("seldom", "--sync=local", "--every=16", "--merge-state=keep")
        reduced = sent("reduced")
        self.assertLess(abs(often - reduced), 0.1 * reduced)
        self.assertLess(seldom, often / 10)

    # With what it has by itself, in a run as short as this too.
    def test_diloco_learns_what_local_sgd_does(self):
        local, diloco = (self.train(sync, "--workers=4", "--steps=100", f"--sync={sync}")
                         for sync in ("local", "diloco"))
        self.assertGreater(local.summary["test_accuracy"], 0.9)
        self.assertGreater(diloco.summary["test_accuracy"],
                           local.summary["test_accuracy"] - 0.05)

    # Chosen anew after every merge: the loss falls too slowly, and it is halved.
    def test_an_interval_that_adapts(self):
        run = self.train("run", "--workers=2", "--steps=30", "--lr=0.0001", "--sync=local", "--every=auto",
                         "--first-every=8", "--every-seconds=0.000001", "--eval-every=never",
                         "--checkpoint-every=never")
        merges = [row["step"] for row in run.rows if row.get("merges")]
        self.assertEqual(merges, [8, 12, 14, *range(15, 31)])
        self.assertIn("every is a number of steps", self.refused(
            "train", "--sync=local", "--every=4", "--first-every=8"))

    # Epochs end after steps 17, 34, 51 and 68, each with a test and a checkpoint.
    def test_rounds_go_across_epochs(self):
        run = self.train("run", "--workers=2", "--epochs=4", "--sync=diloco", "--every=30")
        merges = {row["step"]: row["merges"] for row in run.rows if row.get("merges")}
        self.assertEqual(merges, {30: 1, 60: 1, 68: 1})

    def test_a_run_may_change_its_way(self):
        run = self.train("run", "--workers=2", "--steps=20")
        steps = 20
        for flags in [*WAYS.values(), ["--sync=allreduce"]]:
            steps += 10
            self.call("train", f"--resume={run.folder}", f"--steps={steps}", *flags)
            self.assertEqual(run.summary["step"], steps)
        self.assertEqual(len(run.losses), steps)

    def test_ctrl_c_stops_soon_and_can_be_resumed(self):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, "--sync=local", "--workers=2", "--log-every=7",
                             "--synthetic-samples=2400000", "--steps=100000",
                             "--eval-every=never", "--checkpoint-every=100000",
                             f"--out={run.folder}")
        self.wait_for_step(run, 20, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        step = run.summary["step"]
        self.assertLess(step, 100000)
        self.assertEqual(sum(row["samples"] for row in run.rows if "loss" in row), 24 * step)
        self.call("train", f"--resume={run.folder}", f"--steps={step + 5}")
        self.assertTrue(run.summary["finished"])

    def test_a_diverged_run_says_so(self):
        done = self.call("train", *SMALL, "--sync=local", "--workers=2", "--steps=200",
                         "--lr=1000", "--weight-decay=10", "--non-finite=apply", "--log-every=10",
                         f"--out={self.path('run')}", status=1)
        found = re.search(r"the loss became -?(?:nan|inf) in step (\d+): training has diverged",
                          done.stderr)
        last = Run(self.path("run")).rows[-1]  # with the losses until then
        self.assertEqual(last["step"], int(found[1]))
        self.assertGreater(last["loss"], 0)
        self.call("report", self.path("run"))

    def test_bad_input(self):
        def refused(*flags):
            return self.refused("train", *SMALL, *flags)

        self.assertIn("--every: '0' is not a number of steps (allowed: 1 … 1e9) or auto",
                      refused("--sync=local", "--every=0"))
        self.assertIn("--every: 'often' is not a number of steps (allowed: 1 … 1e9) or auto",
                      refused("--sync=local", "--every=often"))
        self.assertIn("every = 4 has no effect", refused("--every=4"))
        self.assertIn("--local-after: '130%' is not a number of steps, or a share of the run like 30%",
                      refused("--sync=local", "--local-after=130%"))
        self.assertIn("fragments = 9 cannot be exchanged one by one in every = 8 steps",
                      refused("--sync=diloco", "--every=8", "--fragments=9"))
        self.assertIn("outer-overlap = 8 steps do not end before the next exchange",
                      refused("--sync=diloco", "--every=8", "--outer-overlap=8"))
        self.assertIn("--outer-lr: 0 is out of range", refused("--sync=diloco", "--outer-lr=0"))
        self.assertIn("fragments = 2 has no effect: sync = local has no such setting; sync = diloco has",
                      refused("--sync=local", "--fragments=2"))
        self.assertIn("sync = gossip takes 2 workers at least", refused("--sync=gossip", "--workers=1"))
        self.assertIn("--every: 'auto' is not a whole number", refused("--sync=gossip", "--every=auto"))
        self.assertIn("merge-state = keep has no effect: sync = gossip has no such setting; sync = local has",
                      refused("--sync=gossip", "--merge-state=keep"))
        self.assertIn("graph = exponential has no effect", refused("--sync=local", "--graph=exponential"))
        self.assertIn("--graph: 'star' is none of ring, exponential",
                      refused("--sync=gossip", "--graph=star"))
        self.assertIn("bucket-mb = 4 has no effect", refused("--sync=local", "--bucket-mb=4"))
        with open(self.path("job.toml"), "w") as file:
            file.write('sync = "local"\nevery = 0\n')
        self.assertIn("job.toml:2: every: 0 is not a number of steps",
                      self.refused("train", "--config=job.toml"))


if __name__ == "__main__":
    unittest.main()
