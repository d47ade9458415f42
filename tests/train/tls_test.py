"""asup train with links that are encrypted, on one host and between hosts. The hosts are network namespaces."""

import os
import shlex
import shutil
import subprocess
import sys
import unittest

from harness import PATIENCE, PROGRAM, SMALL, Case, Run

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
import hosts  # noqa: E402

HAS_NETWORKS = (os.geteuid() == 0 and shutil.which("ip") and shutil.which("tc") and
                subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0)
TRAIN = [*SMALL, "--steps=12", "--workers=2", "--lr=0.05"]


class OnOneHost(Case):
    def test_ends_with_the_bits_of_plain_links(self):
        for way in (["--sync=allreduce"], ["--sync=server", "--pace=bsp", "--servers=1"], ["--sync=local", "--every=4"]):
            with self.subTest(way=way[0]):
                plain, encrypted = (self.train(f"{tls}-{way[0][7:]}", *TRAIN, *way, "--links=tcp", f"--tls={tls}")
                                    for tls in ("off", "on"))
                self.assertEqual(encrypted.summary["links"], "TCP on this host, encrypted")
                self.assertEqual(plain.summary["links"], "TCP on this host")
                self.assertEqual(encrypted.sha, plain.sha)

    def test_what_it_cannot_be_is_refused(self):
        line = self.refused("train", *TRAIN, "--tls=1.3", f"--out={self.path('refused')}")
        self.assertIn("auto, on, off", line)


# Hears what goes through eth0, until its standard input ends.
SNIFFER = """
import select, socket, sys
heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
heard.bind(("eth0", 0))
print("ready", flush=True)
with open(sys.argv[1], "wb") as file:
    while heard in (ready := select.select([heard, sys.stdin], [], [])[0]):
        file.write(heard.recv(1 << 17))
"""


@unittest.skipUnless(HAS_NETWORKS, "needs root, ip, tc and network namespaces")
class BetweenHosts(Case):
    def train_on_hosts(self, name, *flags):
        run = Run(self.path(name))
        with hosts.Network(2, 1e9) as network:
            sniffer = self.start_sniffer(network.namespace(0), self.path(f"{name}.packets"))
            inner = [PROGRAM, "run", "--ssh", str(network.agent), "--hosts",
                     ",".join(network.address(host) for host in range(2)), "--interface", f"{hosts.NETWORK}.0/24", *flags,
                     "--", PROGRAM, "train", *TRAIN, f"--out={run.folder}"]
            done = subprocess.run([str(network.agent), network.address(0), shlex.join(inner)], env=self.environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
            sniffer.communicate(timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(self.path(f"{name}.packets"), "rb") as file:
            return run, file.read()

    def start_sniffer(self, namespace, file):
        sniffer = subprocess.Popen(["ip", "netns", "exec", namespace, sys.executable, "-c", SNIFFER, file],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, sniffer)
        self.assertEqual(sniffer.stdout.readline(), "ready\n")
        return sniffer

    def test_it_is_encrypted_unless_told_otherwise(self):
        # Of what the coordinator and the workers say to each other.
        in_the_clear = (b'"hostname"', b'"generation"')
        run, heard = self.train_on_hosts("auto")
        self.assertEqual(run.summary["links"], "TCP, encrypted")
        self.assertGreater(len(heard), 100_000)
        for text in in_the_clear:
            self.assertNotIn(text, heard)
        plain, heard = self.train_on_hosts("off", "--tls=off")
        self.assertEqual(plain.summary["links"], "TCP")
        for text in in_the_clear:
            self.assertIn(text, heard)
        self.assertEqual(run.sha, plain.sha)


if __name__ == "__main__":
    unittest.main()
