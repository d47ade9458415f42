"""`asup bench faults`: a minute of random kills and halts by all ways of training; nothing hangs or is wrong."""

import json
import os
import unittest

from harness import PATIENCE, SOAK, Case

SECONDS = 3000 if SOAK else 60


class FaultsBench(Case):
    def test_nothing_hangs_or_is_wrong(self):
        process = self.start("bench", "faults", f"--seconds={SECONDS}", f"--out={self.path('runs')}",
                             f"--json={self.path('rows.json')}")
        out, err = process.communicate(timeout=SECONDS + PATIENCE)
        self.assertEqual(process.returncode, 0, out + err + self.logs())
        with open(self.path("rows.json")) as file:
            rows = json.load(file)
        self.assertGreater(sum(row["kills"] for row in rows), 0)
        self.assertEqual(sum(row["hung"] + row["failed"] + row["lost_steps"] + row.get("wrong", 0) for row in rows), 0)
        self.assertEqual([name for name in os.listdir(self.path("runs")) if not name.startswith("undisturbed")], [])

    def logs(self):
        """What jobs said that came to something else."""
        folder = self.path("runs")
        said = ""
        for name in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
            if name.endswith(".log"):
                with open(os.path.join(folder, name)) as file:
                    said += f"\n{name}:\n{file.read()[-3000:]}"
        return said

    def test_bad_input(self):
        self.assertIn("--ways ring: there is allreduce", self.refused("bench", "faults", "--ways=ring"))
        self.assertIn("--workers 1: between 2 and 24", self.refused("bench", "faults", "--workers=1"))
        self.assertIn("--steps 9: between 100", self.refused("bench", "faults", "--steps=9"))
        self.assertIn("--seconds 0: above 0", self.refused("bench", "faults", "--seconds=0"))
        self.assertIn("rows.json", self.refused("bench", "faults", f"--json={self.path('nowhere/rows.json')}"))


if __name__ == "__main__":
    unittest.main()
