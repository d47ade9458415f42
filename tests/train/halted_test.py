"""A worker is halted from outside in the middle of a run, again and again: the pace follows."""

import json
import os
import signal
import threading
import time
import unittest

from harness import SMALL, Case, Run

HALTED = "rank 2"
# Sync points come after 6 steps, and with them server.json.
ENDLESS = [*SMALL, "--synthetic-samples=144", "--workers=3", "--steps=1000000",
           "--eval-every=never", "--checkpoint-every=1000000", "--sync=asup"]


class DutyCycle:
    """Halts a process for 95 ms of every 100 while it lives."""

    def __init__(self, pid):
        self.pid = pid
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over.is_set():
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(0.095)
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(0.005)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Halted(Case):
    def begin(self, name, *flags):
        run = Run(self.path(name))
        # Computing takes much less than this, so that the cores of the machine are not the limit.
        self.environment["ASUP_INJECTED_SLOWNESS"] = "sample_ms=1"
        process = self.start("train", *ENDLESS, *flags, f"--out={run.folder}")
        self.wait_for_file(run.path("server.json"), process)
        return run, process

    def report(self, run):
        with open(run.path("server.json")) as file:
            return json.load(file)

    def share(self, run, process, steps=12):
        """What part of the samples of the steps to come is the halted worker's."""
        deadline = time.monotonic() + 60
        before = self.report(run)
        while True:
            self.assertIsNone(process.poll(), "the run ended too early")
            self.assertLess(time.monotonic(), deadline, "the run stands still")
            now = self.report(run)
            if now["samples"] - before["samples"] >= steps * 24:
                own = [each["workers"][2]["samples"] for each in (before, now)]
                return (own[1] - own[0]) / (now["samples"] - before["samples"])
            time.sleep(0.02)

    def wait_for_share(self, run, process, is_so):
        """Until the share is as it should be. The controller needs some steps to see a change."""
        shares = []
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            shares.append(self.share(run, process))
            if is_so(shares[-1]):
                return
        self.fail(f"the halted worker's shares of the samples were {shares}")

    def stop(self, process):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)

    def test_an_adaptive_pace_follows_and_comes_back(self):
        run, process = self.begin("adaptive")
        self.wait_for_share(run, process, lambda share: share > 0.25)
        before = len(self.report(run)["choices"])
        with DutyCycle(self.members()[HALTED]):
            # The pacer leaves it behind at once; the controller decides when it has seen enough.
            self.wait_for_share(run, process, lambda share: share < 0.15 and
                                len(self.report(run)["choices"]) > before)
        halted = len(self.report(run)["choices"])
        self.wait_for_share(run, process, lambda share: share > 0.25 and
                            len(self.report(run)["choices"]) > halted)
        choices = self.report(run)["choices"]
        # What was decided while the worker was halted was for a slow one, and the last is not.
        slow = [max(choice["lease_seconds"]) / min(choice["lease_seconds"])
                for choice in choices[before:halted]]
        self.assertGreater(max(slow), 1.4)  # some four times, where nothing else disturbs
        self.assertLess(max(choices[-1]["lease_seconds"]) / min(choices[-1]["lease_seconds"]),
                        max(slow))
        self.stop(process)

    # Its first choice, of workers that are equal, is that all wait for all, unless the machine was
    # busy just then.
    def test_a_frozen_pace_does_not(self):
        run, process = self.begin("frozen", "--freeze-pace")
        self.share(run, process)
        choices = self.report(run)["choices"]
        self.assertIn("frozen", choices[-1]["name"])
        with DutyCycle(self.members()[HALTED]):
            share = self.share(run, process)
        is_even = len(set(choices[-1]["lengths"])) == 1
        if is_even and choices[-1]["bounds"].startswith("gather all, "):
            self.assertGreater(share, 0.25)
        self.assertEqual(self.report(run)["choices"], choices)
        self.stop(process)


if __name__ == "__main__":
    unittest.main()
