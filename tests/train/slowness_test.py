"""Workers that are slow on purpose: a sample takes its time in every way of training."""

import unittest

from harness import Case

SAMPLE_MS = 4
WAYS = {
    "allreduce": ["--sync=allreduce"],
    "accumulated": ["--sync=allreduce", "--accumulate=3"],
    "balanced": ["--sync=allreduce", "--balance"],
    "local": ["--sync=local", "--every=4"],
    "diloco": ["--sync=diloco", "--every=4"],
    "gossip": ["--sync=gossip"],
    "adpsgd": ["--sync=adpsgd"],
    "server": ["--sync=server", "--pace=bsp"],
    "asup": ["--sync=asup", "--keep-servers"],
    "easgd": ["--sync=server", "--merge=easgd"],
}


class Slowness(Case):
    def test_all_samples_take_their_time(self):
        for name, flags in WAYS.items():
            with self.subTest(name):
                run = self.train(name, "--workers=2", "--steps=12", "--eval-every=never", *flags,
                                 ASUP_INJECTED_SLOWNESS=f"sample_ms={SAMPLE_MS}")
                # Two workers share the samples, and at the very least one has half of them.
                self.assertGreaterEqual(run.summary["seconds"], 12 * 24 / 2 * SAMPLE_MS / 1000)

    def test_of_convolutions_too(self):
        run = self.train("run", "--workers=2", "--eval-every=never", "--model=cnn", "--width=4",
                         "--steps=4", ASUP_INJECTED_SLOWNESS=f"sample_ms={SAMPLE_MS}")
        self.assertGreaterEqual(run.summary["seconds"], 4 * 24 / 2 * SAMPLE_MS / 1000)


if __name__ == "__main__":
    unittest.main()
