"""Training through servers: every pace, the same bits, resuming, and what is lost."""

import json
import os
import signal
import time
import unittest

from harness import PATIENCE, SMALL, Case, Run

SERVER = ["--sync=server", "--workers=2", "--steps=40"]
PACES = {
    "bsp": ["--sync=server"],
    "ssp": ["--sync=server", "--pace=ssp", "--staleness=2"],
    "asp": ["--sync=server", "--pace=asp", "--servers=2", "--stale-lr", "--compensation=0.04"],
    "kasync": ["--sync=server", "--pace=kasync", "--gather=2"],
    "adaptive": ["--sync=asup", "--keep-servers"],
}


class Server(Case):
    def wait_for_member(self, name, process):
        self.wait_for(lambda: name in self.members(), process, f"{name} did not come")
        return self.members()[name]

    def wait_for_content(self, path, process):
        """Looks as often as it can: what is waited for is soon over."""
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            if os.path.exists(path) and os.path.getsize(path) > 0:
                return

    # An epoch has 17 steps, the last of them with 16 samples.
    def test_every_pace_trains_on_all_samples(self):
        for pace, flags in PACES.items():
            with self.subTest(pace=pace):
                run = self.train(pace, "--workers=2", "--epochs=3", *flags)
                summary = run.summary
                self.assertTrue(summary["finished"])
                self.assertEqual((summary["step"], summary["samples"]), (51, 1200))
                self.assertEqual((summary["pace"], summary["servers"]),
                                 (pace, 2 if pace == "asp" else 1))
                server = summary["server"]
                # An adaptive pace may drop what came much too late, and put late pushes together.
                self.assertEqual(server["samples"] + server["samples_dropped"], 1200)
                self.assertEqual(sum(worker["samples"] for worker in server["workers"]),
                                 server["samples"])
                self.assertEqual([worker["worker"] for worker in server["workers"]], [0, 1])
                if pace != "adaptive":
                    self.assertEqual(server["samples_dropped"], 0)
                    self.assertGreaterEqual(server["updates"], 51)
                if pace == "bsp":
                    self.assertEqual(server["updates"], 51)
                    self.assertEqual(server["worst_staleness"], 0)
                self.assertEqual(bool(server["choices"]), pace == "adaptive")
                self.assertEqual(len(run.losses), 51)
                self.assertLess(sum(run.losses[-10:]), sum(run.losses[:10]))
                self.assertIn("test_accuracy", summary)
                with open(run.path("server.json")) as file:
                    self.assertEqual(json.load(file)["samples"], server["samples"])
                with open(run.path("report.html")) as file:
                    self.assertIn('"mean_staleness_steps"', file.read())
                self.assertIn(f"at pace {pace}", self.call("report", run.folder).stdout)

    # Two of three workers share a batch: all steps take two pushes, whoever was late.
    def test_steps_with_backup_workers_are_whole(self):
        run = self.train("run", "--sync=server", "--workers=3", "--backup=1", "--epochs=3")
        server = run.summary["server"]
        self.assertTrue(run.summary["finished"])
        self.assertEqual((server["updates"], server["samples"]), (51, 1200))
        self.assertEqual((server["samples_dropped"], server["worst_staleness"]), (0, 0))
        self.assertEqual(len(run.losses), 51)
        self.assertLess(sum(run.losses[-10:]), sum(run.losses[:10]))

    def test_in_step_it_follows_all_reduce_to_the_same_bits_every_time(self):
        reduced = self.train("reduced", "--workers=2", "--steps=40")
        one = self.train("one", *SERVER)
        two = self.train("two", *SERVER, "--servers=2", "--links=tcp")
        for a, b in zip(reduced.losses, one.losses):
            self.assertAlmostEqual(a, b, delta=1e-5)
        self.assertEqual(one.sha, two.sha)
        self.assertEqual(one.losses, two.losses)

    def test_a_stopped_run_ends_as_one_that_was_not(self):
        flags = [*SERVER, "--optimizer=adam", "--checkpoint-every=10", "--keep-checkpoints=1"]
        whole = self.train("whole", *flags)
        parts = self.train("parts", *flags, "--stop-at=25")
        self.assertFalse(parts.summary["finished"])
        self.assertEqual(os.listdir(parts.path("checkpoints")), ["step-00000025"])
        self.assertIn("optimizer/exp_avg/hidden.0.weight", parts.saved["tensors"])
        self.call("train", f"--resume={parts.folder}", "--servers=2")
        self.assertTrue(parts.summary["finished"])
        self.assertEqual(parts.sha, whole.sha)
        self.assertEqual(parts.losses, whole.losses)
        self.assertEqual(os.listdir(parts.path("checkpoints")), ["step-00000040"])

    def test_a_run_may_change_to_servers_and_back(self):
        whole = self.train("whole", "--workers=2", "--steps=40")
        run = self.train("run", "--workers=2", "--steps=20")
        self.call("train", f"--resume={run.folder}", "--steps=30", "--sync=server")
        self.call("train", f"--resume={run.folder}", "--steps=40", "--sync=allreduce")
        self.assertEqual(run.summary["step"], 40)
        self.assertEqual(len(run.losses), 40)
        for a, b in zip(run.losses, whole.losses):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def test_a_lost_worker_is_done_without(self):
        for pace in ("asp", "bsp"):
            with self.subTest(pace=pace):
                run = Run(self.path(pace))
                process = self.start("train", *SMALL, "--sync=server", f"--pace={pace}",
                                     "--workers=3", "--steps=680", f"--out={run.folder}")
                self.wait_for_step(run, 17, process)
                os.kill(self.members()["rank 1"], signal.SIGKILL)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 0, err)
                self.assertIn("rank 1 was lost", err)
                self.assertTrue(run.summary["finished"])
                server = run.summary["server"]
                self.assertEqual([worker["here"] for worker in server["workers"]],
                                 [True, False, True])
                self.assertEqual(server["samples"], 16000)

    # The losses of steps that it had to itself, as in a merge, are lost with it.
    def test_a_lost_worker_is_done_without_where_workers_train_by_themselves(self):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, "--sync=server", "--merge=easgd", "--workers=3",
                             "--every=17", "--steps=680", f"--out={run.folder}")
        self.wait_for_step(run, 17, process)
        os.kill(self.members()["rank 1"], signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(run.summary["server"]["samples"], 16000)
        self.assertEqual(run.rows[-1]["step"], 680)

    # The files of a run's only sync point show how far rank 0 is. Rank 2 is halted there, wherever it is
    # by then, so that the others come to wait for it, and then dies.
    def test_a_worker_lost_while_a_run_ends_is_done_without(self):
        for sign in ("metrics.jsonl", "evaluation.json", "checkpoints/step-00000017",
                     "summary.json"):
            with self.subTest(sign=sign):
                run = Run(self.path(os.path.basename(sign)))
                process = self.start("train", *SMALL, "--sync=server", "--workers=3", "--steps=17",
                                     "--timeout=1000", f"--out={run.folder}")
                victim = self.wait_for_member("rank 2", process)
                self.wait_for_content(run.path(sign), process)
                for number in (signal.SIGSTOP, signal.SIGKILL):
                    try:
                        os.kill(victim, number)
                    except ProcessLookupError:
                        break  # it was done
                    time.sleep(0.1)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 0, err)
                self.assertTrue(run.summary["finished"])
                self.assertEqual(len(run.losses), 17)
                self.assertEqual(run.summary["server"]["samples"], 400)
                self.assertEqual(len(run.checkpoints), 1)

    def test_a_lost_server_ends_the_job(self):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, "--sync=asup", "--keep-servers", "--servers=2", "--workers=2",
                             "--steps=1000000", "--eval-every=never", f"--out={run.folder}")
        self.wait_for_step(run, 17, process)
        pid = self.members()["server 1"]
        os.kill(pid, signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1, err)
        self.assertRegex(err.strip().splitlines()[-1],
                         rf"server 1 \(pid {pid} on .*\) was killed by signal 9")

    # The next sync point that was planned is far away.
    def test_ctrl_c_stops_soon_and_can_be_resumed(self):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, "--sync=server", "--pace=asp", "--workers=2",
                             "--synthetic-samples=2400000", "--steps=100000", "--eval-every=never",
                             "--checkpoint-every=100000", f"--out={run.folder}")
        self.wait_for_file(run.path("metrics.jsonl"), process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        self.assertLess(run.summary["step"], 100000)
        self.assertEqual(len(run.checkpoints), 1)
        self.call("train", f"--resume={run.folder}", f"--steps={run.summary['step'] + 5}")
        self.assertTrue(run.summary["finished"])

    def test_a_diverged_run_says_so(self):
        done = self.call("train", *SMALL, *SERVER, "--lr=1000", f"--out={self.path('run')}",
                         status=1)
        self.assertIn("training has diverged", done.stderr.strip().splitlines()[-1])

    # 17 steps in rounds of 4 are 5 rounds, of which the last is the short last step.
    def test_workers_may_train_by_themselves_and_merge(self):
        for merge, pace, *more in (("easgd", "bsp"), ("easgd", "asp", "--servers=2"),
                                   ("mean", "bsp", "--every=17"), ("mean", "adaptive")):
            with self.subTest(merge=merge, pace=pace):
                run = self.train(f"{merge}-{pace}", "--sync=server", "--workers=2", "--epochs=6",
                                 f"--pace={pace}", f"--merge={merge}", "--lr=0.02", *more)
                server = run.summary["server"]
                self.assertEqual(server["samples"] + server["samples_dropped"], 2400)
                if pace == "bsp":
                    self.assertEqual(server["updates"], 30 if merge == "easgd" else 6)
                self.assertEqual(len(run.losses), 102)
                self.assertLess(sum(run.losses[-17:]), 0.7 * sum(run.losses[:17]))

    def test_a_merged_run_that_was_stopped_ends_as_one_that_was_not(self):
        flags = [*SERVER, "--merge=easgd", "--optimizer=adam", "--remainder=drop", "--steps=32",
                 "--checkpoint-every=4"]
        whole = self.train("whole", *flags)
        often = self.train("often", *flags, "--eval-every=4")
        self.assertEqual(often.sha, whole.sha)
        parts = self.train("parts", *flags, "--stop-at=12")
        self.call("train", f"--resume={parts.folder}")
        self.assertEqual(parts.sha, whole.sha)
        self.assertIn("all meet after step 7, for a test, a checkpoint or the end, but",
                      self.refused("train", *SMALL, *flags, "--stop-at=7",
                                   f"--out={self.path('run')}"))

    # How a model is cut up is known in workers alone.
    def test_bad_input_that_workers_find_is_bad_input(self):
        last = self.refused("train", *SMALL, *SERVER, "--optimizer=lars", "--servers=7",
                            f"--out={self.path('run')}")
        self.assertIn("7 servers are more than the model can use", last)

    def test_parameters_may_stay_on_their_worker(self):
        flags = [*SERVER, "--model=cnn", "--width=4", "--checkpoint-every=20"]
        shared = self.train("shared", *flags)
        local = self.train("local", *flags, "--local-parameters=output.")
        again = self.train("again", *flags, "--local-parameters=output.", "--stop-at=20")
        self.assertNotEqual(shared.sha, local.sha)
        self.call("train", f"--resume={again.folder}")
        self.assertEqual(again.sha, local.sha)
        done = self.call("train", *SMALL, *SERVER, "--local-parameters=tail.", status=2)
        self.assertIn("the model trains no parameter 'tail.'", done.stderr)


if __name__ == "__main__":
    unittest.main()
