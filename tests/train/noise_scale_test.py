"""The gradient noise scale in what a run leaves."""

import unittest

from harness import Case

# Steps that hardly change the model, so that every way looks at the same gradients.
STILL = ["--epochs=4", "--lr=1e-6", "--momentum=0"]


class NoiseScale(Case):
    def noise(self, name, *flags):
        """Of the last row, which the summary and the report have too."""
        run = self.train(name, *STILL, *flags)
        rows = [row["noise_scale"] for row in run.rows if "noise_scale" in row]
        self.assertGreaterEqual(len(rows), 4)  # where rows are summed up at sync points, the last one has it
        self.assertEqual(run.summary["noise_scale"], rows[-1])
        with open(run.path("report.html")) as file:
            self.assertIn('"noise_scale"', file.read())
        return rows[-1]

    def test_ways_agree(self):
        by_all_reduce = self.noise("allreduce", "--workers=4")
        self.assertGreater(by_all_reduce, 0)
        for name, *flags in (
                ["balanced", "--workers=3", "--balance"],
                ["servers", "--workers=4", "--sync=server", "--pace=bsp", "--servers=2"],
                ["portions", "--workers=1", "--accumulate=4"],
                ["local", "--workers=2", "--sync=local", "--accumulate=4"],
                ["one-by-one", "--workers=2", "--sync=server", "--pace=asp", "--accumulate=4"]):
            with self.subTest(name):
                noise = self.noise(name, *flags)
                self.assertGreater(noise, 0.5 * by_all_reduce)
                self.assertLess(noise, 2 * by_all_reduce)

    def test_where_there_is_nothing_to_compare_there_is_none(self):
        for name, *flags in (
                ["one", "--workers=1"],
                ["local", "--workers=2", "--sync=local"],
                ["one-by-one", "--workers=2", "--sync=server", "--pace=asp"]):
            with self.subTest(name):
                run = self.train(name, "--epochs=1", *flags)
                self.assertNotIn("noise_scale", run.summary)
                self.assertFalse([row for row in run.rows if "noise_scale" in row])


if __name__ == "__main__":
    unittest.main()
