"""Runs that change their way of staying in step as they go."""

import unittest

from harness import SMALL, Case, Run

CHANGES = {
    "local-allreduce": ["--sync=local", "--every=5", "--then=allreduce", "--at=60%"],
    "allreduce-local": ["--then=local", "--every=4", "--at=23"],
    "keep-allreduce": ["--sync=local", "--merge-state=keep", "--then=allreduce", "--at=23"],
    "gossip-local": ["--sync=gossip", "--then=local", "--at=24", "--optimizer=adam", "--lr=0.01"],
    "allreduce-gossip": ["--balance", "--then=gossip", "--at=50%", "--graph=exponential"],
    "diloco-allreduce": ["--sync=diloco", "--every=6", "--outer-overlap=2", "--then=allreduce",
                         "--at=23", "--optimizer=adam", "--lr=0.003"],
}
STEPS = {"local-allreduce": 24, "allreduce-local": 23, "keep-allreduce": 23, "gossip-local": 24,
         "allreduce-gossip": 20, "diloco-allreduce": 23}


class Switch(Case):
    def ways(self, run):
        return [row["sync"] for row in run.rows if "loss" in row]

    # Models are compared bit by bit when the way changes, at ends of epochs and at the end: a run
    # whose workers' models or optimizers differed would fail.
    def test_any_way_to_any_other(self):
        for name, flags in CHANGES.items():
            with self.subTest(change=name):
                run = self.train(name, "--workers=3", "--steps=40", *flags)
                first, second = name.split("-")
                first = "local" if first == "keep" else first
                after = STEPS[name]
                self.assertEqual(self.ways(run), [first] * after + [second] * (40 - after))
                summary = run.summary
                self.assertTrue(summary["finished"])
                self.assertEqual((summary["sync"], summary["then"], summary["switched_after"]),
                                 (first, second, after))
                self.assertEqual(summary["samples"], 24 * 38 + 2 * 16)
                self.assertLess(sum(run.losses[-10:]), 0.8 * sum(run.losses[:10]))

    # The same steps by the same ways, in one run that changes and in one that is resumed by another
    # way: what is carried over is the same to the bit.
    def test_a_run_that_changes_ends_as_one_that_was_resumed_by_the_other_way(self):
        common = ["--workers=2", "--steps=40", "--optimizer=adam", "--checkpoint-every=20"]
        run = self.train("run", *common, "--sync=gossip", "--then=allreduce", "--at=20")
        parts = self.train("parts", *common, "--sync=gossip", "--stop-at=20")
        self.call("train", f"--resume={parts.folder}", "--sync=allreduce")
        self.assertEqual(parts.losses, run.losses)
        self.assertEqual(parts.sha, run.sha)

    def test_a_run_can_be_resumed_before_at_and_after_the_change(self):
        for name in "local-allreduce", "keep-allreduce", "allreduce-local", "diloco-allreduce":
            flags = [*CHANGES[name], "--workers=2", "--steps=40", "--checkpoint-every=1"]
            whole = self.train(f"{name}-whole", *flags)
            for stop in 10, STEPS[name], 31:
                with self.subTest(change=name, stop=stop):
                    run = self.train(f"{name}-{stop}", *flags, f"--stop-at={stop}")
                    self.assertFalse(run.summary["finished"])
                    self.call("train", f"--resume={run.folder}")
                    self.assertTrue(run.summary["finished"])
                    self.assertEqual(run.losses, whole.losses)
                    self.assertEqual(run.sha, whole.sha)
                    self.assertEqual(run.summary["switched_after"], STEPS[name])

    # At one's own pace a fence comes at the change; workers do a little more than was asked for.
    def test_to_and_from_ones_own_pace(self):
        changes = {
            "adpsgd": ["--sync=adpsgd", "--graph=exponential", "--then=allreduce", "--at=23"],
            "rounds": ["--sync=local", "--round-seconds=0.2", "--then=allreduce", "--at=23"],
            "allreduce": ["--then=adpsgd", "--at=23"],
        }
        for name, flags in changes.items():
            with self.subTest(change=name):
                run = self.train(name, "--workers=2", "--steps=40", *flags)
                self.assertTrue(run.summary["finished"])
                self.assertEqual(run.summary["switched_after"], 23)
                for row in run.rows:
                    if "loss" in row:
                        first = row["sync"] != run.summary["then"]
                        self.assertEqual(first, row["step"] <= 23)
                parts = self.train(f"{name}-parts", "--workers=2", "--steps=40", *flags,
                                   "--stop-at=30")
                self.call("train", f"--resume={parts.folder}")
                self.assertTrue(parts.summary["finished"])

    def test_to_and_from_servers(self):
        changes = {
            "server-allreduce": ["--sync=server", "--then=allreduce", "--balance", "--at=23"],
            "server-local": ["--sync=server", "--servers=2", "--then=local", "--at=stall",
                             "--lr=1e-9", "--momentum=0"],
            "allreduce-server": ["--then=server", "--servers=2", "--at=23"],
            "local-asup": ["--sync=local", "--then=asup", "--at=23"],
        }
        for name, flags in changes.items():
            with self.subTest(change=name):
                flags = ["--workers=2", "--steps=40", *flags]
                done = self.call("train", *SMALL, *flags, f"--out={self.path(name)}")
                run = Run(self.path(name))
                self.assertIn("the optimizer's state begins anew", done.stderr + done.stdout)
                self.assertTrue(run.summary["finished"])
                after = run.summary["switched_after"]
                self.assertIn(after, (17, 23))
                first, second = name.split("-")
                self.assertEqual(self.ways(run), [first] * after + [second] * (40 - after))
                parts = self.train(f"{name}-parts", *flags, "--stop-at=30")
                self.call("train", f"--resume={parts.folder}")
                self.assertTrue(parts.summary["finished"])

    # Without momentum nothing is begun anew that counts: in step, it is one course.
    def test_servers_in_step_follow_all_reduce(self):
        flags = ["--workers=2", "--steps=40", "--momentum=0"]
        reduced = self.train("reduced", *flags)
        for name, change in {"to": ["--then=server", "--at=20"],
                             "from": ["--sync=server", "--then=allreduce", "--at=20"]}.items():
            run = self.train(name, *flags, *change)
            self.assertEqual(len(run.losses), 40)
            for a, b in zip(run.losses, reduced.losses):
                self.assertLessEqual(abs(a - b), 1e-5 * abs(b))

    # With no learning rate worth the name, the loss stays where it is: seen after the second of
    # twenty spans of the run.
    def test_a_loss_that_stalls(self):
        flags = ["--workers=2", "--steps=340", "--sync=local", "--then=allreduce", "--at=stall",
                 "--lr=1e-9"]
        run = self.train("run", *flags, "--checkpoint-every=17")
        self.assertEqual(run.summary["switched_after"], 34)
        self.assertEqual(self.ways(run), ["local"] * 34 + ["allreduce"] * 306)
        for stop in 17, 34, 51:
            parts = self.train(f"parts-{stop}", *flags, "--checkpoint-every=17",
                               f"--stop-at={stop}")
            self.call("train", f"--resume={parts.folder}")
            self.assertEqual(self.ways(parts), self.ways(run))
            self.assertEqual(parts.sha, run.sha)

    def test_a_loss_that_does_not_stall(self):
        run = self.train("run", "--workers=2", "--steps=340", "--then=local", "--at=stall",
                         "--synthetic-noise=0", "--lr=0.01")
        self.assertNotIn("switched_after", run.summary)
        self.assertEqual(set(self.ways(run)), {"allreduce"})

    def test_a_resumed_run_may_get_another_way(self):
        run = self.train("run", "--workers=2", "--steps=40", "--stop-at=20")
        self.call("train", f"--resume={run.folder}", "--then=local", "--at=30")
        self.assertEqual(run.summary["switched_after"], 30)
        # Another sync is another plan for the whole run.
        self.call("train", f"--resume={run.folder}", "--steps=50", "--sync=gossip")
        self.assertNotIn("then", run.summary)

    def test_bad_input(self):
        def refused(*flags):
            return self.refused("train", *SMALL, "--workers=2", "--steps=40", *flags,
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


if __name__ == "__main__":
    unittest.main()
