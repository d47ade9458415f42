"""`asup bench faults`: random kills, halts and cut links by all ways of training; nothing hangs or is wrong."""

import json
import os
import shutil
import subprocess
import unittest

from harness import PATIENCE, SOAK, Case

SECONDS = 3600 if SOAK else 40


class FaultsBench(Case):
    def bench(self, *flags, patience):
        """Rows and output of one in which all is well."""
        process = self.start("bench", "faults", *flags, f"--out={self.path('runs')}",
                             f"--json={self.path('rows.json')}")
        out, err = process.communicate(timeout=patience)
        self.assertEqual(process.returncode, 0, out + err + self.logs())
        with open(self.path("rows.json")) as file:
            return json.load(file), out

    def test_nothing_hangs_or_is_wrong(self):
        rows, _ = self.bench(f"--seconds={SECONDS}", patience=SECONDS + PATIENCE)
        self.assertGreater(sum(row["kills"] for row in rows), 0)
        self.assertEqual(sum(row["hung"] + row["failed"] + row["lost_steps"] + row["wrong"] for row in rows), 0)
        self.assertEqual([row["troubles"] for row in rows if row["troubles"]], [])
        self.assertEqual(os.listdir(self.path("runs")), ["undisturbed"])

    # One that ends by a loss and is resumed, one whose server is lost, and a program.
    def test_ends_when_there_were_so_many(self):
        rows, out = self.bench("--faults=3", "--ways=pipeline,server-lost,program", patience=2 * PATIENCE)
        self.assertEqual([row["way"] for row in rows], ["pipeline", "server-lost", "program"])
        self.assertEqual([row["after_a_loss"] for row in rows], ["ends", "ends", "memory"])
        self.assertTrue(all(row["is_compared"] for row in rows))
        faults = sum(row["kills"] + row["halts"] for row in rows)
        self.assertGreaterEqual(faults, 3)
        self.assertIn(f"{faults} faults in {sum(row['jobs'] for row in rows)} jobs, of which 0", out)

    def test_links_between_hosts_are_cut(self):
        if not shutil.which("ip") or subprocess.run(["unshare", "-n", "ip", "link", "add", "port", "type", "veth"],
                          capture_output=True).returncode != 0:
            self.skipTest("no hosts can be made of network namespaces here")
        rows, out = self.bench("--hosts=3", "--ways=local", "--faults=1", patience=2 * PATIENCE)
        self.assertEqual(rows[0]["cuts"], rows[0]["jobs"])
        self.assertEqual(rows[0]["joins"], 0)
        self.assertIn("a host of its own", " ".join(out.split()))

    # How much they cost depends on the machine.
    def test_losses_at_a_rate(self):
        rows, out = self.bench("--every=5", "--seconds=10", "--ways=allreduce", patience=2 * PATIENCE)
        self.assertEqual([row["way"] for row in rows], ["allreduce"])
        self.assertEqual(rows[0]["trouble"], "")
        self.assertGreaterEqual(rows[0]["kills"], 2)  # one a turn
        self.assertEqual(rows[0]["joins"], rows[0]["kills"])
        speeds = [rows[0][f"{which}_steps_per_second"] for which in ("disturbed", "undisturbed")]
        self.assertAlmostEqual(rows[0]["share"], speeds[0] / speeds[1])
        self.assertIn(f"{100 * rows[0]['share']:.1f} %", out)

    def logs(self):
        """What jobs said that came to something else."""
        said = ""
        for folder, _, names in sorted(os.walk(self.path("runs"))):
            for name in sorted(name for name in names if name.endswith("log")):
                with open(os.path.join(folder, name)) as file:
                    said += f"\n{folder}/{name}:\n{file.read()[-3000:]}"
        return said

    def test_bad_input(self):
        self.assertIn("--ways ring: there is allreduce", self.refused("bench", "faults", "--ways=ring"))
        self.assertIn("--workers 1: between 2 and 24", self.refused("bench", "faults", "--workers=1"))
        self.assertIn("--steps 9: between 100", self.refused("bench", "faults", "--steps=9"))
        self.assertIn("--seconds 0: above 0", self.refused("bench", "faults", "--seconds=0"))
        self.assertIn("--faults -1: above 0", self.refused("bench", "faults", "--faults=-1"))
        self.assertIn("--hosts 1: between 2 and 24", self.refused("bench", "faults", "--hosts=1"))
        self.assertIn("--model lstm: there is mlp, cnn", self.refused("bench", "faults", "--model=lstm"))
        self.assertIn("--ways pipeline: 3 workers are no groups of 2",
                      self.refused("bench", "faults", "--ways=pipeline", "--workers=3"))
        self.assertIn("--ways tensor: it does not go with cnn",
                      self.refused("bench", "faults", "--ways=tensor", "--model=cnn"))
        self.assertIn("--every 1: 5 seconds or more", self.refused("bench", "faults", "--every=1"))
        self.assertIn("--every goes with neither --hosts nor --faults",
                      self.refused("bench", "faults", "--every=10", "--faults=5"))
        self.assertIn("--ways pipeline: it takes nobody in",
                      self.refused("bench", "faults", "--every=10", "--ways=pipeline"))
        self.assertIn("rows.json", self.refused("bench", "faults", f"--json={self.path('nowhere/rows.json')}"))


if __name__ == "__main__":
    unittest.main()
