"""An adaptive run goes on without servers where the network keeps it waiting. The hosts are network namespaces."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

from harness import PATIENCE, PROGRAM, SMALL, Case, Run

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
import hosts  # noqa: E402
import scenes  # noqa: E402

HAS_NETWORKS = (os.geteuid() == 0 and shutil.which("ip") and shutil.which("tc") and
                subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0)
# Parameters take a quarter of a second on their way, far longer than the machine computes meanwhile.
LINK = 20e6
BOUND = [*SMALL, "--width=384", "--batch=8", "--workers=2", "--steps=4000", "--eval-every=never", "--lr=0.001",
         "--sync=asup", "--progress=none"]


@unittest.skipUnless(HAS_NETWORKS, "needs root, ip, tc and network namespaces")
class LeaveServers(Case):
    def train_on_hosts(self, name, *flags, happens=lambda run, process: None):
        run = Run(self.path(name))
        with hosts.Network(2, LINK) as network:
            addresses = ",".join(network.address(host) for host in range(2))
            inner = [PROGRAM, "run", "--ssh", str(network.agent), "--hosts", addresses, "--interface",
                     f"{hosts.NETWORK}.0/24", "--servers=2", "--restarts=1", "--", PROGRAM, "train", *flags,
                     f"--out={run.folder}"]
            process = subprocess.Popen([str(network.agent), network.address(0), shlex.join(inner)], env=self.environment,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(self.end, process)
            happens(run, process)
            said, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, said)
        return run

    def test_a_run_goes_on_by_another_way_and_is_resumed_by_it(self):
        run = self.train_on_hosts("left", *BOUND, "--stop-at=80")
        summary = run.summary
        self.assertEqual(summary["then"], "local")
        self.assertLess(summary["switched_after"], 40)
        self.assertEqual({row["sync"] for row in run.rows if "sync" in row}, {"asup", "local"})
        with open(run.path("server.json")) as file:
            last = json.load(file)["choices"][-1]
        self.assertTrue(last["leaves"])
        self.assertIn("local", last["name"])
        self.assertGreater(last["exchange_seconds"], 0.02)

        self.call("train", f"--resume={run.folder}", "--stop-at=90", "--progress=none")  # on one host
        resumed = run.summary
        self.assertEqual((resumed["step"], resumed["then"], resumed["switched_after"]),
                         (90, "local", summary["switched_after"]))

    def test_a_run_that_is_started_again_goes_on_by_it(self):
        def lose_one(run, process):
            self.wait_for_step(run, 60, process)  # checkpoints are by the other way then
            for pid in scenes.worker_pids(run.folder, 1):
                os.kill(pid, signal.SIGKILL)

        run = self.train_on_hosts("again", *BOUND, "--stop-at=120", "--checkpoint-every=10", "--on-loss=end",
                                  happens=lose_one)
        self.assertEqual((run.summary["step"], run.summary["then"]), (120, "local"))
        self.assertLess(run.summary["switched_after"], 40)
        self.assertGreaterEqual(run.summary["first_step"], 50)  # it was

    def test_it_keeps_its_servers_where_it_is_told_to(self):
        for name, flag in (("told", "--keep-servers"), ("after_loss", "--on-loss=continue")):
            with self.subTest(flag=flag):
                summary = self.train_on_hosts(name, *BOUND, "--stop-at=24", flag).summary
                self.assertNotIn("then", summary)
                self.assertEqual(summary["server"]["samples"] + summary["server"]["samples_dropped"], 192)


if __name__ == "__main__":
    unittest.main()
