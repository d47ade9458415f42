"""The example with an embedding table on servers: it learns, in less memory than the table has."""

import os
import re
import signal
import unittest

from harness import Case

CLICK_LOG = os.environ["CLICK_LOG"]


class ClickLog(Case):
    def command_line(self, *arguments, workers=2, servers=2, way=(), flags=()):
        variables = [flag for variable in way for flag in ("--env", variable)]
        return ["run", "-n", str(workers), "--servers", str(servers), *flags, *variables, "--", CLICK_LOG,
                *map(str, arguments)]

    def figures(self, out):
        """(step, log loss, AUC) of each test, and the megabytes of each worker: peak, limit, table."""
        tests = [(int(step), float(loss), float(area)) for step, loss, area in
                 re.findall(r"step (\d+): log loss ([\d.]+), AUC ([\d.]+)", out)]
        memory = [tuple(map(int, found)) for found in
                  re.findall(r"peak memory (\d+) MB, limit (\d+) MB, table (\d+) MB", out)]
        return tests, memory

    def check_learns(self, out):
        tests, memory = self.figures(out)
        self.assertLess(tests[-1][1], tests[0][1] - 0.02, out)
        self.assertGreater(tests[-1][2], 0.62, out)
        return memory

    def test_a_table_that_is_larger_than_a_workers_memory(self):
        done = self.call(*self.command_line(120))
        memory = self.check_learns(done.stdout)
        self.assertEqual(len(memory), 2, done.stdout)
        for peak, limit, table in memory:
            self.assertLess(limit, table)
            self.assertLess(peak, limit)

    def test_two_runs_in_step_learn_the_same(self):
        runs = [self.figures(self.call(*self.command_line(20, 8000, 256)).stdout)[0] for _ in range(2)]
        self.assertEqual(runs[0], runs[1])
        other = self.call(*self.command_line(20, 8000, 256, servers=1)).stdout
        self.assertEqual(self.figures(other)[0], runs[0], "whatever the number of servers")

    def test_the_dense_part_goes_through_the_servers_too(self):
        for pace in "bsp", "asp", "ssp":
            with self.subTest(pace=pace):
                way = ["ASUP_SYNC=server", f"ASUP_PACE={pace}"]
                self.check_learns(self.call(*self.command_line(200, 80000, 512, way=way)).stdout)

    def test_the_others_go_on_without_a_worker_that_is_lost(self):
        for pace in "bsp", "asp":
            with self.subTest(pace=pace):
                process = self.start(*self.command_line(
                    400, 80000, 256, self.path(pace), workers=3, servers=1, flags=["--on-loss", "continue"],
                    way=["ASUP_SYNC=server", f"ASUP_PACE={pace}"]))
                while "step 0:" not in (line := process.stdout.readline()):
                    self.assertTrue(line, "the program ended too early")
                os.kill(self.members()["rank 1"], signal.SIGKILL)
                out, err = process.communicate(timeout=300)
                self.assertIn("step 400:", out, err)
                self.assertIn("rank 2: ", out, err)
                file = os.path.join(self.path(pace), "step-00000400", "tables", "ids.safetensors")
                self.assertGreater(os.path.getsize(file), 2 * 80000 * 32 * 4, "rows and sums")

    # Killed when it has two checkpoints at least; then with other servers, and to the same figures.
    def test_a_run_that_was_killed_goes_on_from_its_checkpoint(self):
        job = [1200, 8000, 32]
        whole = self.figures(self.call(*self.command_line(*job)).stdout)[0]
        process = self.start(*self.command_line(*job, self.path("killed")))
        while "step 900:" not in (line := process.stdout.readline()):
            self.assertTrue(line, "the program ended too early")
        os.kill(self.members()["rank 1"], signal.SIGKILL)
        process.communicate(timeout=300)
        again = self.call(*self.command_line(*job, self.path("killed"), servers=3))
        tests = self.figures(again.stdout)[0]
        self.assertGreater(tests[0][0], 0, "it went on")
        self.assertEqual(tests, [test for test in whole if test[0] >= tests[0][0]])
        self.assertEqual(sorted(os.listdir(self.path("killed"))),
                         [".lock", "step-00000900", "step-00001200"])
        fewer = self.call(*self.command_line(1300, 8000, 32, self.path("killed"), workers=1)).stdout
        self.assertEqual(self.figures(fewer)[0][0], whole[-1])

    def test_tables_need_servers(self):
        done = self.call("run", "-n", "1", "--", CLICK_LOG, "1", status=2)
        self.assertIn("embedding tables are kept by servers, and this job has none", done.stderr)

    def test_what_is_no_count_is_refused(self):
        for rows in 0, -3, "nonsense":
            done = self.call(*self.command_line(1, rows), status=2)
            self.assertIn(f"'{rows}' is no count above 0", done.stderr)


if __name__ == "__main__":
    unittest.main()
