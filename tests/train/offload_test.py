"""What lies on a disk in place of memory: the same training, with less memory."""

import resource
import unittest

from harness import Case, Run

FLAGS = ["--data=synthetic", "--synthetic-samples=256", "--synthetic-test-samples=64", "--model=mlp", "--width=1024",
         "--batch=32", "--eval-every=never"]
# With Adam's state, of 248 MB, a worker takes 575 MB for this one, and without 334.
LARGE = ["--data=synthetic", "--synthetic-samples=64", "--synthetic-test-samples=32", "--model=mlp", "--width=2048",
         "--depth=8", "--batch=16", "--steps=2", "--conv-path=native", "--optimizer=adam", "--workers=1", "--threads=1", "--eval-every=never",
         "--checkpoint-every=never"]


class Offload(Case):
    def trained(self, name, *flags, **more):
        self.call("train", *FLAGS, *flags, f"--out={self.path(name)}", **more)
        return Run(self.path(name))

    def on_disk(self, name, what, *flags):
        return self.trained(name, f"--offload={what}", *flags)

    def test_the_bits_are_those_of_memory(self):
        for optimizer in ["--optimizer=sgd"], ["--optimizer=adam"], ["--optimizer=adam", "--shard=optimizer"]:
            with self.subTest(optimizer):
                flags = [*optimizer, "--workers=2", "--steps=6", "--lr=0.001"]
                self.assertEqual(self.on_disk("disk", "all", *flags).sha, self.trained("memory", *flags).sha)

    def test_a_resumed_run_goes_on_to_the_same_bits(self):
        flags = ["--optimizer=adam", "--workers=2", "--steps=8", "--checkpoint-every=4", "--sync=local"]
        whole = self.trained("whole", *flags)
        self.on_disk("part", "all", *flags, "--stop-at=4")
        self.call("train", f"--resume={self.path('part')}")
        self.assertEqual(Run(self.path("part")).sha, whole.sha)

    # The limit counts what is a process's own, as a container's does once the system has written to
    # the disk what it may.
    def test_a_model_trains_whose_state_memory_has_no_room_for(self):
        def call(*flags, status):
            limit = 450_000_000
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
            try:
                return self.call("train", *LARGE, *flags, f"--out={self.path('large')}", status=status)
            finally:
                hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
                resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        self.assertIn("memory", call(status=1).stderr)
        call("--offload=optimizer", status=0)

    def test_what_cannot_be(self):
        for flags, why in (
                (["--offload=optimizer", "--sync=server"], "it is the servers that keep the optimizer's state"),
                (["--offload=optimizer", "--momentum=0"], "sgd without momentum keeps nothing"),
                (["--offload=all", "--pipeline=2"], "Give recompute, which keeps fewer"),
                (["--offload-folder=/"], "offload-folder"),
                (["--offload=optimizer", "--offload-folder=/dev/shm"], "/dev/shm: lies in memory (tmpfs)"),
                (["--offload=optimizer", "--offload-folder=/nowhere"], "/nowhere: no file can be made there")):
            with self.subTest(flags):
                done = self.call("train", *FLAGS, *flags, f"--out={self.path('refused')}", status=2)
                self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
