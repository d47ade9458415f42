"""What all workers did and when, in one file: asup train --timeline."""

import gzip
import json
import os
import shlex
import signal
import subprocess
import unittest
from collections import defaultdict

from harness import SMALL, Case, Run

# Microseconds: ends are rounded to nanoseconds, and clocks may be as far apart.
ROUNDING = 0.01
CLOCKS = 50.0
FAR = 5000  # seconds that a time namespace sets a clock ahead


class Timeline(Case):
    def read(self, path):
        """The events of a file by (process, track), and what its first line tells. Checks what every such
        file has to hold to."""
        with gzip.open(path, "rt") as file:
            whole = json.load(file)
        self.assertEqual(whole["displayTimeUnit"], "ms")
        names, tracks, spans = {}, {}, defaultdict(list)
        for event in whole["traceEvents"]:
            place = event["pid"], event["tid"]
            if event["ph"] == "M":
                if event["name"] == "process_name":
                    names[event["pid"]] = event["args"]["name"]
                elif event["name"] == "thread_name":
                    tracks[place] = event["args"]["name"]
                continue
            self.assertIn(event["ph"], "XC")
            self.assertGreaterEqual(event["ts"], 0)
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0, event)
                self.assertTrue(event["name"] and event["cat"])
            spans[place].append(event)
        found = {}
        for (pid, tid), events in spans.items():
            times = [event["ts"] for event in events]
            self.assertEqual(times, sorted(times))
            self.check_nested([event for event in events if event["ph"] == "X"])
            found.setdefault((names[pid], tracks[pid, tid]), []).extend(events)
        return found, whole["otherData"]

    def check_nested(self, spans):
        """On a track, a span lies in another one or beside it: viewers draw nothing else."""
        ends = []
        for span in spans:
            while ends and ends[-1] <= span["ts"] + ROUNDING:
                ends.pop()
            end = span["ts"] + span["dur"]
            if ends:
                self.assertLessEqual(end, ends[-1] + ROUNDING, span)
            ends.append(end)

    @staticmethod
    def of(events, kind, step=None):
        return [event for event in events
                if event.get("cat") == kind and step in (None, event["args"].get("step"))]

    def check_steps(self, events, steps):
        """Each step is there once, with what `in_it` says inside."""
        found = self.of(events, "step")
        self.assertEqual([span["args"]["step"] for span in found], list(steps))
        for span in found:
            for kind in "forward", "backward":
                [inner] = self.of(events, kind, span["args"]["step"])
                self.assertGreaterEqual(inner["ts"], span["ts"])
                self.assertLessEqual(inner["ts"] + inner["dur"], span["ts"] + span["dur"] + ROUNDING)

    def test_all_reduce(self):
        run = self.train("run", "--workers=2", "--steps=20", "--timeline")
        found, view = self.read(run.path("timeline.json.gz"))
        self.assertEqual({name for name, _ in found}, {"rank 0", "rank 1"})
        for rank in "rank 0", "rank 1":
            training = found[rank, "training"]
            self.check_steps(training, range(1, 21))
            for kind in "data", "optimizer":
                self.assertEqual(len(self.of(training, kind)), 20)
            for kind in "test", "checkpoint", "sync point":
                self.assertTrue(self.of(training, kind), kind)
            exchanged = self.of(found[rank, "exchange"], "exchange", 7)
            bucket = next(span for span in exchanged if span["args"].get("bucket") == 0)
            self.assertEqual(bucket["name"], "all_reduce")
            self.assertGreater(bucket["args"]["bytes"], 0)
            self.assertTrue(bucket["args"]["detail"], "the algorithm")
            self.assertTrue(self.of(found[rank, "data"], "load"))
        # The same collective ends on no rank before it has begun on the other.
        for step in range(2, 21):
            one, other = (next(span for span in self.of(found[rank, "exchange"], "exchange", step)
                               if span["args"].get("bucket") == 0) for rank in ("rank 0", "rank 1"))
            self.assertLess(one["ts"], other["ts"] + other["dur"] + CLOCKS)
            self.assertLess(other["ts"], one["ts"] + one["dur"] + CLOCKS)
        self.assertEqual([process["dropped"] for process in view["processes"]], [0, 0])
        for share in view["shares"]:
            self.assertEqual(share["steps"], 20)
            self.assertAlmostEqual(sum(share["seconds"].values()), share["step_s"], places=6)

    def test_it_changes_no_weight_and_without_it_there_is_none(self):
        with_it = self.train("with", "--workers=2", "--steps=6", "--timeline=torch")
        without = self.train("without", "--workers=2", "--steps=6")
        self.assertEqual(with_it.sha, without.sha)
        self.assertFalse(os.path.exists(without.path("timeline.json.gz")))

    def test_torch_and_the_steps_that_are_asked_for(self):
        run = self.train("run", "--workers=2", "--steps=12", "--timeline=torch", "--timeline-steps=5-8",
                         "--checkpoint-every=4")
        found, _ = self.read(run.path("timeline.json.gz"))
        for rank in "rank 0", "rank 1":
            self.check_steps(found[rank, "training"], range(5, 9))
            names = {span["name"] for span in self.of(found[rank, "training: torch"], "operation", 6)}
            self.assertIn("aten::addmm", names)
            self.assertTrue(any("Backward" in name for name in names), names)
            for events in found.values():
                self.assertLessEqual({event["args"].get("step") for event in events},
                                     {None, 5, 6, 7, 8})

    def test_servers_and_workers_at_their_own_pace(self):
        for name, kinds, flags in [
                ("bsp", ["push", "pull"], ["--sync=server", "--pace=bsp"]),
                ("asp", ["push", "pull"], ["--sync=server", "--pace=asp"]),
                ("adpsgd", ["forward"], ["--sync=adpsgd"]),
                ("local", ["wait"], ["--sync=local", "--every=3"])]:
            with self.subTest(name):
                run = self.train(name, *flags, "--workers=2", "--steps=12", "--timeline")
                found, view = self.read(run.path("timeline.json.gz"))
                for rank in "rank 0", "rank 1":
                    training = found[rank, "training"]
                    for kind in ["step", "forward", "backward", *kinds]:
                        self.assertTrue(self.of(training, kind), (kind, name))
                self.assertEqual(len(view["shares"]), 2)

    def test_micro_batches_of_a_pipeline(self):
        run = self.train("run", "--workers=2", "--pipeline=2", "--microbatches=4", "--steps=5", "--timeline",
                         "--depth=2")
        found, _ = self.read(run.path("timeline.json.gz"))
        expected = [(step, batch) for step in range(1, 6) for batch in range(4)]
        for stage, rank in enumerate(("rank 0", "rank 1")):
            training = found[rank, "training"]
            for kind in "forward", "backward":
                spans = [span["args"] for span in self.of(training, kind) if "micro_batch" in span["args"]]
                self.assertEqual({span["stage"] for span in spans}, {stage})
                self.assertEqual(sorted((span["step"], span["micro_batch"]) for span in spans), expected)
            waits = [span["args"] for span in self.of(training, "wait") if "micro_batch" in span["args"]]
            self.assertEqual(sorted({(span["step"], span["micro_batch"]) for span in waits}), expected)
            curves = defaultdict(list)
            for event in training:
                if event["ph"] == "C":
                    curves[event["name"]].append(event)
            self.assertEqual(len(curves["micro-batches early"]), 5 * 2 * 4)
            self.assertGreaterEqual(len(curves["batches ready"]), 5, "in tests too")

    def test_codes_are_encoded(self):
        run = self.train("run", "--workers=2", "--steps=4", "--timeline", "--compress=int8",
                         "--width=256", "--algorithm=ring")
        found, _ = self.read(run.path("timeline.json.gz"))
        self.assertTrue(self.of(found["rank 0", "exchange"], "encode"))
        run = self.train("sparse", "--workers=2", "--steps=4", "--timeline", "--compress=topk",
                         "--compress-per=worker", "--width=256")
        found, _ = self.read(run.path("timeline.json.gz"))
        self.assertTrue(self.of(found["rank 0", "training"], "encode"))

    # As on another host, whose clock began to count at another time.
    def test_clocks_of_other_hosts_are_aligned(self):
        apart = ["unshare", "-r", "--time", "--monotonic", str(FAR), "--fork", "--kill-child"]
        if not os.path.exists("/proc/self/ns/time"):
            self.skipTest("this kernel has no time namespaces")
        subprocess.run([*apart, "true"], check=True)
        program = self.path("rank.sh")
        with open(program, "w") as file:
            file.write('#!/bin/sh\n[ "$ASUP_RANK" = 0 ] && exec "$@"\nexec %s "$@"\n' % shlex.join(apart))
        os.chmod(program, 0o755)
        self.call("run", "-n", "2", "--", program, *self.command("train"), *SMALL, "--steps=30",
                  "--timeline", f"--out={self.path('run')}")
        found, view = self.read(self.path("run/timeline.json.gz"))
        clocks = view["processes"][1]["clock"]
        self.assertGreaterEqual(len(clocks), 2, "at the beginning and at the end")
        for clock in clocks:
            self.assertAlmostEqual(clock["offset_us"], -FAR * 1e6, delta=CLOCKS)
        ends = [max(event["ts"] for event in found[rank, "training"]) for rank in ("rank 0", "rank 1")]
        self.assertLess(abs(ends[0] - ends[1]), 5e6)

    def test_a_killed_rank_leaves_what_the_others_know(self):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, "--workers=3", "--epochs=100000", "--timeline",
                             "--checkpoint-every=20", f"--out={run.folder}")
        self.wait_for_step(run, 60, process)
        os.kill(self.members()["rank 1"], signal.SIGKILL)
        process.communicate()
        self.assertEqual(process.returncode, 1)
        found, view = self.read(run.path("timeline.json.gz"))
        last = {rank: max(span["args"]["step"] for span in self.of(found[rank, "training"], "step"))
                for rank in ("rank 0", "rank 1", "rank 2")}
        self.assertGreaterEqual(last["rank 1"], 20, "what it told at its last checkpoint")
        self.assertGreaterEqual(last["rank 0"], last["rank 1"])
        self.assertGreaterEqual(last["rank 2"], last["rank 1"])

    def test_the_file_is_bounded(self):
        run = self.train("run", "--workers=1", "--steps=8000", "--timeline=torch", "--eval-every=never",
                         "--checkpoint-every=never", "--log-every=1000", "--width=4")
        found, view = self.read(run.path("timeline.json.gz"))
        [process] = view["processes"]
        self.assertGreater(process["dropped"], 0)
        self.assertLessEqual(process["events"], 200_000)
        steps = [span["args"]["step"] for span in self.of(found["rank 0", "training"], "step")]
        self.assertEqual(steps[-1], 8000)
        self.assertGreater(len(steps), 100)
        self.assertLess(os.path.getsize(run.path("timeline.json.gz")), 16 << 20)

    def test_a_program_of_ones_own(self):
        program = os.environ["LOST_PROGRAM"]
        self.call("run", "-n", "2", "--timeline", "own.json.gz", "--", program, self.path("own"), "10", "-1",
                  "before", "0")
        found, _ = self.read(self.path("own.json.gz"))
        for rank in "rank 0", "rank 1":
            training = found[rank, "training"]
            self.assertEqual([span["args"]["step"] for span in self.of(training, "step")],
                             list(range(1, 11)))
            self.assertEqual(len(self.of(training, "optimizer")), 10)
            self.assertTrue(self.of(found[rank, "exchange"], "exchange", 5))

    def test_bad_values_are_refused(self):
        self.assertIn("'torch' for torch's operators too",
                      self.refused("train", *SMALL, "--timeline=all"))
        for value in "5", "0-3", "7-6", "a-b", "1-":
            self.assertIn("the first step and the last, like 100-120",
                          self.refused("train", *SMALL, f"--timeline-steps={value}"))
        self.assertIn("--timeline needs a value", self.refused("run", "--timeline=", "--", "true"))
        done = self.call("train", *SMALL, status=2, ASUP_TIMELINE="x")
        self.assertIn("ASUP_TIMELINE is for programs of one's own", done.stderr)


if __name__ == "__main__":
    unittest.main()
