"""Runs that change their way of staying in step as they go, and the one model that every way ends
with."""

import glob
import os
import shutil
import signal
import unittest

from harness import PATIENCE, PROGRAM, SMALL, Case, Run

STEPS = 40

# first-then: what is said beside both.
IN_STEP = {
    "local-allreduce": ["--every=5", "--at=60%"],
    "allreduce-local": ["--every=4", "--at=23"],
    "gossip-local": ["--at=24", "--optimizer=adam", "--lr=0.01"],
    "allreduce-gossip": ["--balance", "--at=50%", "--graph=exponential"],
    "diloco-gossip": ["--every=6", "--outer-overlap=2", "--at=23", "--optimizer=adam", "--lr=0.003"],
    "local-diloco": ["--merge-state=keep", "--outer-lr=0.5", "--fragments=2", "--every=4", "--at=23"],
}
THROUGH_SERVERS = {
    "server-allreduce": ["--balance", "--at=23"],
    "allreduce-server": ["--servers=2", "--pace=ssp", "--staleness=2", "--at=23"],
    "local-server": ["--pace=asp", "--merge-state=keep", "--at=23"],
    "diloco-asup": ["--every=6", "--at=23", "--optimizer=rmsprop", "--lr=0.003"],
    "server-gossip": ["--pace=asp", "--servers=2", "--at=23"],
    "asup-server": ["--at=23"],
}
AT_OWN_PACE = {
    "adpsgd-allreduce": ["--graph=exponential", "--at=23"],
    "local-adpsgd": ["--round-seconds=0.2", "--at=23"],
    "allreduce-local": ["--round-seconds=0.2", "--at=23"],
    "adpsgd-server": ["--at=23"],
    "asup-adpsgd": ["--at=23"],
}
AFTER = {"local-allreduce": 24, "gossip-local": 24, "allreduce-gossip": 20}  # others: 23

# Of a change after step 20; two runs of each end with the same bits.
SAME_BITS = {
    "local-allreduce": ["--every=4", "--merge-state=keep"],
    "allreduce-local": ["--every=4"],
    "diloco-allreduce": ["--every=4", "--optimizer=adam", "--lr=0.003"],
    "allreduce-server": ["--servers=2", "--optimizer=adam", "--lr=0.003"],
    "server-gossip": [],
}


def ways(name):
    first, second = name.split("-")
    return [f"--sync={first}", f"--then={second}"]


class Switch(Case):
    def said(self, run):
        return [row["sync"] for row in run.rows if "loss" in row]

    def shorten(self, run, name, step):
        """The folder as it was when the run had saved itself after this step, and died."""
        shutil.copytree(run.folder, self.path(name))
        for path in glob.glob(os.path.join(self.path(name), "checkpoints", "step-*")):
            if int(os.path.basename(path)[5:13]) > step:
                shutil.rmtree(path)
        return Run(self.path(name))

    # Models are compared bit by bit when the way changes, at ends of epochs and at the end: a run
    # whose workers' models or optimizers differed would fail.
    def test_any_way_to_any_other(self):
        for name, flags in {**IN_STEP, **THROUGH_SERVERS}.items():
            with self.subTest(change=name):
                run = self.train(name, "--workers=3", f"--steps={STEPS}", *ways(name), *flags)
                first, second = name.split("-")
                after = AFTER.get(name, 23)
                self.assertEqual(self.said(run), [first] * after + [second] * (STEPS - after))
                summary = run.summary
                self.assertTrue(summary["finished"])
                self.assertEqual((summary["sync"], summary["then"], summary["switched_after"]),
                                 (first, second, after))
                self.assertEqual(summary["samples"], 24 * 38 + 2 * 16)
                self.assertLess(sum(run.losses[-10:]), 0.9 * sum(run.losses[:10]))

    # At one's own pace a sync point comes at the change; workers do a little more than was asked for.
    def test_to_and_from_ones_own_pace(self):
        for name, flags in AT_OWN_PACE.items():
            with self.subTest(change=name):
                run = self.train(name, "--workers=2", f"--steps={STEPS}", *ways(name), *flags)
                self.assertTrue(run.summary["finished"])
                self.assertEqual(run.summary["switched_after"], 23)
                first, second = name.split("-")
                for row in run.rows:
                    if "loss" in row:
                        self.assertEqual(row["sync"], first if row["step"] <= 23 else second)
                self.assertLess(sum(run.losses[-8:]), 0.9 * sum(run.losses[:8]))
                if second in ("adpsgd", "local"):
                    self.call("train", f"--resume={run.folder}", f"--steps={STEPS + 10}")
                    self.assertEqual((run.summary["step"], run.summary["switched_after"]),
                                     (STEPS + 10, 23))
        parts = self.train("parts", "--workers=2", f"--steps={STEPS}", *ways("adpsgd-allreduce"),
                           *AT_OWN_PACE["adpsgd-allreduce"], "--stop-at=12")
        self.call("train", f"--resume={parts.folder}")
        self.assertEqual(parts.summary["switched_after"], 23)

    def test_a_run_can_be_resumed_before_at_and_after_the_change(self):
        for name, flags in SAME_BITS.items():
            whole = self.train(name, *ways(name), "--at=20", *flags, "--workers=2",
                               f"--steps={STEPS}", "--checkpoint-every=10", "--keep-checkpoints=9")
            for step in (10, 20, 30) if name.startswith("allreduce") else (20, 30):
                with self.subTest(change=name, step=step):
                    run = self.shorten(whole, f"{name}-{step}", step)
                    done = self.call("train", f"--resume={run.folder}")
                    self.assertNotIn("begins anew", done.stdout + done.stderr)
                    self.assertEqual(run.losses, whole.losses)
                    self.assertEqual(run.sha, whole.sha)
                    self.assertEqual(run.summary["switched_after"], 20)

    # The same steps by the same ways, in one run that changes and in one that is resumed by another
    # way: what is carried over is the same to the bit.
    def test_a_run_that_changes_ends_as_one_that_was_resumed_by_the_other_way(self):
        common = ["--workers=2", f"--steps={STEPS}", "--optimizer=adam", "--checkpoint-every=20"]
        run = self.train("run", *common, "--sync=gossip", "--then=allreduce", "--at=20")
        parts = self.train("parts", *common, "--sync=gossip", "--stop-at=20")
        self.call("train", f"--resume={parts.folder}", "--sync=allreduce")
        self.assertEqual(parts.losses, run.losses)
        self.assertEqual(parts.sha, run.sha)

    # In step, servers do what all-reduce does: with the optimizer's state, to and from them is one
    # course. A state that began anew would be seen.
    def test_servers_take_the_optimizers_state_and_give_it_back(self):
        for optimizer in "--optimizer=sgd", "--optimizer=adam":
            flags = ["--workers=2", f"--steps={STEPS}", optimizer, "--lr=0.01"]
            reduced = self.train("reduced", *flags)
            for name, change in {"to": ["--then=server", "--servers=2", "--at=20"],
                                 "from": ["--sync=server", "--then=allreduce", "--at=20"]}.items():
                run = self.train(name, *flags, *change)
                self.assertEqual(len(run.losses), STEPS)
                for a, b in zip(run.losses, reduced.losses):
                    self.assertLessEqual(abs(a - b), 1e-5 * abs(b), f"{optimizer} {name}")

    # Workers and servers have folders of their own, by one name: no file goes between them.
    def test_servers_need_not_see_the_runs_folder(self):
        os.mkdir(self.path("workers"))
        flags = [f"--steps={STEPS}", "--optimizer=adam", "--lr=0.01", "--checkpoint-every=10"]
        reduced = self.train("reduced", *flags, "--workers=2")
        for name, change in {"to": ["--then=server", "--at=20"],
                             "from": ["--sync=server", "--then=allreduce", "--at=20"]}.items():
            self.call("run", "-n2", "--servers=2", "--", "sh", "-c", 'cd "$0" && exec "$@"',
                      self.path("workers"), PROGRAM, "train", *SMALL, *flags, *change,
                      f"--out=/proc/self/cwd/{name}")
            run = Run(os.path.join(self.path("workers"), name))
            self.assertEqual(len(run.losses), STEPS)
            for a, b in zip(run.losses, reduced.losses):
                self.assertLessEqual(abs(a - b), 1e-5 * abs(b), name)

    # A checkpoint of one way is taken up by another: the same course with servers and without.
    def test_a_checkpoint_takes_the_optimizers_state_to_servers_and_from_them(self):
        flags = ["--workers=2", f"--steps={STEPS}", "--optimizer=adam", "--lr=0.01"]
        reduced = self.train("reduced", *flags)
        for name, first, second in ("to", "allreduce", "server"), ("from", "server", "allreduce"):
            run = self.train(name, *flags, f"--sync={first}", "--stop-at=20")
            self.call("train", f"--resume={run.folder}", f"--sync={second}")
            for a, b in zip(run.losses, reduced.losses, strict=True):
                self.assertLessEqual(abs(a - b), 1e-5 * abs(b), name)

    # With no learning rate worth the name, the loss stays where it is: seen after the second of
    # twenty spans of the run, which are epochs here.
    def test_a_loss_that_stalls(self):
        flags = ["--workers=2", "--steps=340", "--at=stall", "--lr=1e-9", "--checkpoint-every=17",
                 "--keep-checkpoints=99"]
        run = self.train("run", *ways("local-allreduce"), *flags)
        self.assertEqual(self.said(run), ["local"] * 34 + ["allreduce"] * 306)
        for step in 17, 34:
            parts = self.shorten(run, f"parts-{step}", step)
            self.call("train", f"--resume={parts.folder}")
            self.assertEqual(parts.summary["switched_after"], 34)
            self.assertEqual(self.said(parts), self.said(run))
            self.assertEqual(parts.sha, run.sha)
        for name in "server-local", "adpsgd-gossip":
            run = self.train(name, *ways(name), *flags)
            self.assertTrue(run.summary["finished"])
            self.assertIn(run.summary["switched_after"], range(34, 340))

    def test_a_loss_that_does_not_stall(self):
        run = self.train("run", "--workers=2", "--steps=340", "--then=local", "--at=stall",
                         "--synthetic-noise=0", "--lr=0.01")
        self.assertNotIn("switched_after", run.summary)
        self.assertEqual(set(self.said(run)), {"allreduce"})

    # Up to the change, and there those who are left begin a next generation.
    def test_a_worker_that_was_lost_is_done_without_at_the_change(self):
        run = Run(self.path("run"))
        self.environment["ASUP_INJECTED_SLOWNESS"] = "sample_ms=4"  # seconds are left to the change
        process = self.start("train", *SMALL, "--workers=3", "--steps=187", "--at=170",
                             *ways("adpsgd-server"), f"--out={run.folder}")
        self.wait_for_step(run, 17, process)
        os.kill(self.members()["rank 2"], signal.SIGKILL)
        output = "".join(process.communicate(timeout=PATIENCE))
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("2 of 3 workers are left after step 170, where the run changes to sync = "
                      "server", output)
        self.assertTrue(run.summary["finished"])
        self.assertEqual(run.summary["workers"], 2)
        self.assertEqual(run.summary["switched_after"], 170)

    # The one that is left cannot gossip, and need not any more.
    def test_what_is_behind_a_change_asks_for_no_workers(self):
        run = Run(self.path("run"))
        self.environment["ASUP_INJECTED_SLOWNESS"] = "sample_ms=4"  # seconds are left to the change
        process = self.start("train", *SMALL, "--workers=2", "--steps=187", "--at=170",
                             "--on-loss=continue", *ways("gossip-allreduce"), f"--out={run.folder}")
        self.wait_for_step(run, 17, process)
        os.kill(self.members()["rank 1"], signal.SIGKILL)
        output = "".join(process.communicate(timeout=PATIENCE))
        self.assertEqual(process.returncode, 0, output)
        self.assertTrue(run.summary["finished"])
        self.assertEqual(run.summary["workers"], 1)
        self.assertEqual(run.summary["switched_after"], 170)

    def test_a_resumed_run_may_get_another_way(self):
        run = self.train("run", "--workers=2", f"--steps={STEPS}", "--stop-at=20")
        self.call("train", f"--resume={run.folder}", "--then=local", "--at=30")
        self.assertEqual(run.summary["switched_after"], 30)
        # Another sync is another plan for the whole run.
        self.call("train", f"--resume={run.folder}", "--steps=50", "--sync=gossip")
        self.assertNotIn("then", run.summary)

    # Whoever loads what a run has left, by its own way or by another, has the same model.
    # What has changed stays so, however long the run becomes; and no change can be put off.
    def test_a_change_that_is_past(self):
        run = self.train("run", "--workers=2", "--steps=20", *ways("local-allreduce"), "--at=50%")
        self.call("train", f"--resume={run.folder}", "--steps=60")
        self.assertEqual(self.said(run), ["local"] * 10 + ["allreduce"] * 50)
        self.assertEqual(run.summary["switched_after"], 10)
        said = self.refused("train", f"--resume={run.folder}", "--steps=80", "--at=70")
        self.assertIn("at = 70: the run has changed to sync = allreduce after step 10 already", said)
        self.call("train", f"--resume={run.folder}", "--steps=70", "--then=none")
        self.assertNotIn("then", run.summary)

    def test_every_way_ends_with_one_model(self):
        for name, flags in {
                "allreduce": [], "server": ["--pace=asp"], "asup": [], "local": [], "diloco": [],
                "gossip": [], "adpsgd": [], "local-rounds": ["--round-seconds=0.2"],
                "local-allreduce": ["--then=allreduce"]}.items():
            with self.subTest(way=name):
                run = self.train(name, f"--sync={name.split('-')[0]}", *flags, "--workers=2",
                                 "--steps=20")
                before = run.summary
                self.assertEqual(before["checkpoint"], "step-00000020")
                for again in ["--sync=gossip"], ["--sync=server"]:
                    self.call("train", f"--resume={run.folder}", *again)
                    for figure in "test_accuracy", "test_loss", "weights_sha256":
                        self.assertEqual(run.summary[figure], before[figure], figure)
                    if name not in ("local", "asup"):
                        break

    def test_bad_input(self):
        def refused(*flags):
            return self.refused("train", *SMALL, "--workers=2", f"--steps={STEPS}", *flags,
                                f"--out={self.path('refused')}")

        self.assertIn("then = local is the way that the run begins with",
                      refused("--sync=local", "--then=local"))
        self.assertIn("at = 50% has no effect", refused("--at=50%"))
        self.assertIn("at = 'soon' is no step, no share of the run like 80%, and not stall",
                      refused("--then=local", "--at=soon"))
        self.assertIn("at = 40 is not within the run, which has 40 steps",
                      refused("--then=local", "--at=40"))
        self.assertIn("sync = server keeps the parameters on servers, and there are none",
                      refused("--then=server", "--servers=0"))
        self.assertIn("workers would come to the change with parameters of their own",
                      refused("--sync=server", "--merge=easgd", "--then=allreduce"))
        self.assertIn("outer-lr = 0.5 has no effect", refused("--then=local", "--outer-lr=0.5"))
        self.assertIn("--then: 'alreduce' is none of", refused("--sync=local", "--then=alreduce"))
        self.assertFalse(os.path.exists(self.path("refused")))


if __name__ == "__main__":
    unittest.main()
