"""Where workers compute. The models here are on the CPU; with ASUP_TEST_COPIES they travel as those
of a GPU do, by copies, and train to the same bits."""

import unittest

from harness import SMALL, Case, Run

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}

WAYS = {
    "allreduce": ["--bucket-mb=0.002"],
    "allreduce-buffers": ["--sync=allreduce", "--model=resnet18", "--width=auto",
                          "--buffers=average", "--steps=3"],
    "local": ["--every=3"],
    "slowmo": ["--every=3"],
    "diloco": ["--every=4", "--outer-overlap=2", "--fragments=2"],
    "gossip": ["--every=2"],
    "server": ["--pace=bsp", "--servers=2"],
    "merge": ["--sync=server", "--pace=bsp", "--merge=mean", "--every=2"],
}


class Copies(Case):
    def setUp(self):
        super().setUp()
        self.environment.update(NO_GPU)

    def test_they_are_made(self):
        said = self.call("train", *SMALL, "--steps=2", "--workers=2", f"--out={self.path('run')}",
                         ASUP_TEST_COPIES="1", ASUP_LOG_LEVEL="info").stderr
        self.assertEqual(said.count("models travel as copies"), 2, said)  # each worker's

    def both(self, name, *flags):
        plain = self.train(name, *flags)
        copied = self.train(name + "-copies", *flags, ASUP_TEST_COPIES="1")
        self.assertEqual(plain.losses, copied.losses, name)
        self.assertEqual(plain.sha, copied.sha, name)

    def test_every_way(self):
        for name, flags in WAYS.items():
            sync = [] if any(flag.startswith("--sync") for flag in flags) else [f"--sync={name}"]
            self.both(name, "--steps=14", "--workers=2", *sync, *flags)

    def test_optimizers(self):
        for optimizer in "adam", "rmsprop", "lars", "lamb", "asup":
            self.both(optimizer, "--steps=10", "--workers=2", f"--optimizer={optimizer}",
                      "--accumulate=2")

    def test_ways_without_a_course_of_their_own(self):
        for flags in (["--sync=adpsgd"], ["--sync=server", "--pace=asp"],
                      ["--sync=server", "--pace=ssp"]):
            run = self.train("free" + flags[-1][7:], "--steps=10", "--workers=2", *flags,
                             ASUP_TEST_COPIES="1")
            self.assertEqual(run.summary["step"], 10)

    def test_goes_on_from_a_checkpoint(self):
        for sync in "allreduce", "local", "server":
            flags = ["--workers=2", f"--sync={sync}", "--optimizer=adam"]
            whole = self.train(f"whole-{sync}", *flags, "--steps=20", ASUP_TEST_COPIES="1")
            self.train(f"part-{sync}", *flags, "--steps=20", "--stop-at=9", ASUP_TEST_COPIES="1")
            self.call("train", f"--resume={self.path('part-' + sync)}", ASUP_TEST_COPIES="1")
            self.assertEqual(Run(self.path(f"part-{sync}")).sha, whole.sha, sync)

    def test_changes_its_way(self):
        self.both("then", "--steps=14", "--workers=2", "--then=local", "--at=7", "--optimizer=adam")


class BadDevices(Case):
    def refusal(self, *flags):
        done = self.call(*flags, status=2, **NO_GPU)
        return done.stderr.strip().splitlines()[-1]

    def test_a_gpu_that_is_not_there(self):
        for device in "cuda", "cuda:0", "cuda:7":
            said = self.refusal("train", *SMALL, f"--device={device}", "--steps=2")
            self.assertIn(f"device = {device}: ", said)
            self.assertIn("Or use device = cpu", said)

    def test_no_device(self):
        for device in "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1.5", "CUDA":
            said = self.refusal("train", *SMALL, f"--device={device}", "--steps=2")
            self.assertIn(f"device = '{device}' is none of cpu, cuda, cuda:N and auto", said)

    def test_auto_is_the_cpu_where_there_is_no_gpu(self):
        run = self.train("auto", "--steps=2", "--workers=2", **NO_GPU)
        self.assertEqual(run.summary["device"], "cpu")
        said = self.call("eval", run.folder, **NO_GPU).stdout
        self.assertIn("test accuracy", said)
        self.assertIn("device = cuda: ", self.refusal("eval", run.folder, "--device=cuda"))

    def test_a_worker_of_another_launcher(self):
        said = self.refusal("run", "-n", "2", "--",
                            *self.command("train", *SMALL, "--device=cuda", "--steps=2",
                                          f"--out={self.path('run')}"))
        self.assertIn("device = cuda: ", said)


if __name__ == "__main__":
    unittest.main()
