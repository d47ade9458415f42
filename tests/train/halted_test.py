"""A worker is halted from outside in the middle of a run, again and again: the pace follows."""

import json
import os
import signal
import threading
import time
import unittest

from harness import PATIENCE, SMALL, Case, Run

HALTED = "rank 2"
# Sync points come after 6 steps, and with them server.json.
ENDLESS = [*SMALL, "--synthetic-samples=144", "--workers=3", "--steps=1000000",
           "--eval-every=never", "--checkpoint-every=1000000", "--sync=asup", "--keep-servers"]


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
        deadline = time.monotonic() + PATIENCE
        before = self.report(run)
        while True:
            self.assertIsNone(process.poll(), "the run ended too early")
            self.assertLess(time.monotonic(), deadline, "the run stands still")
            now = self.report(run)
            if now["samples"] - before["samples"] >= steps * 24:
                own = [each["workers"][2]["samples"] for each in (before, now)]
                return (own[1] - own[0]) / (now["samples"] - before["samples"])
            time.sleep(0.02)

    def slowness(self, choice):
        """How many times longer than the fastest the halted worker took, by what was decided on."""
        return choice["lease_seconds"][2] / min(choice["lease_seconds"])

    def wait_until(self, run, process, is_so):
        """Until is_so(share, choices). The controller needs some steps to see a change."""
        shares = []
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            shares.append(self.share(run, process))
            choices = self.report(run)["choices"]
            if is_so(shares[-1], choices):
                return choices
        self.fail(f"the halted worker's shares of the samples were {shares}, and its slowness in "
                  f"the choices {[self.slowness(choice) for choice in choices]}")

    def stop(self, process):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)

    def test_an_adaptive_pace_follows_and_comes_back(self):
        run, process = self.begin("adaptive")
        before = len(self.wait_until(run, process, lambda share, choices: share > 0.25))
        with DutyCycle(self.members()[HALTED]):
            # The pacer leaves it behind at once; the controller decides when it has seen enough.
            choices = self.wait_until(run, process, lambda share, choices: share < 0.15 and any(
                self.slowness(choice) > 1.4 for choice in choices[before:]))
        halted = len(choices)
        slowest = max(self.slowness(choice) for choice in choices[before:])
        # What is decided when it runs again is for one that is not as slow.
        self.wait_until(run, process, lambda share, choices: share > 0.25 and any(
            self.slowness(choice) < slowest for choice in choices[halted:]))
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
