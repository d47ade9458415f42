"""asup train under mpirun, its workers linked over MPI."""

import os
import subprocess
import unittest

from harness import PATIENCE, PROGRAM, SMALL, Case, Run


class OverMpi(Case):
    def mpirun(self, *flags):
        """Runs `asup flags` as two ranks."""
        done = subprocess.run([os.environ["ASUP_MPIRUN"], "-n", "2", PROGRAM, *flags],
                              env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=PATIENCE, cwd=self.place)
        return done

    def train_over_mpi(self, name, *flags):
        done = self.mpirun("train", *SMALL, *flags, "--links=mpi", f"--out={self.path(name)}")
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return Run(self.path(name))

    # Of two ranks' gradients there is only one sum, whatever the links.
    def test_ends_with_the_bits_of_other_links(self):
        flags = ["--steps=30", "--lr=0.05", "--model=cnn", "--width=4"]
        over_tcp = self.train("tcp", *flags, "--workers=2", "--links=tcp")
        over_mpi = self.train_over_mpi("mpi", *flags)
        self.assertEqual(over_mpi.losses, over_tcp.losses)
        self.assertEqual(over_mpi.sha, over_tcp.sha)

    def test_bench_checks_its_results(self):
        done = self.mpirun("bench", "collective", "--link=mpi", "--quick", "--sizes=1K,1M")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("allreduce of f32 on 2 ranks over mpi, private buffers", done.stdout)

    def test_without_mpirun_it_says_so(self):
        line = self.refused("train", *SMALL, "--links=mpi", "--workers=2",
                            f"--out={self.path('refused')}")
        self.assertIn("MPI did not start this process", line)
        self.assertIn("mpirun -n N", line)
        self.assertIn("mpirun -n N", self.refused("run", "-n2", "--links=mpi", "--", "true"))

    def test_it_cannot_encrypt_and_says_so(self):
        done = self.mpirun("train", *SMALL, "--steps=3", "--links=mpi", "--tls=on",
                           f"--out={self.path('encrypted')}")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("links over MPI cannot be encrypted", done.stderr)

    def test_the_variable_does_as_well_as_the_flag(self):
        self.environment["ASUP_LINKS"] = "mpi"
        self.assertIn("mpirun -n N", self.refused("run", "-n2", "--", "true"))
        done = self.mpirun("train", *SMALL, "--steps=3", f"--out={self.path('variable')}")
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        self.assertEqual(len(Run(self.path("variable")).losses), 3)


if __name__ == "__main__":
    unittest.main()
