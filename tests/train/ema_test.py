"""The average of a run's weights is what it tests and leaves."""

import glob
import json
import os
import struct
import unittest

import safetensors_file
from harness import Case

NORMED = ["--model=resnet18", "--width=auto", "--synthetic-shape=3x8x8", "--synthetic-samples=64",
          "--synthetic-test-samples=40", "--batch=8", "--lr=0.01"]


def floats(tensor):
    dtype, _, data = tensor
    return struct.unpack(f"<{len(data) // 4}f", data) if dtype == "F32" else None


def saved_in(checkpoint):
    """The numbers of each tensor, by name."""
    tensors = {}
    for shard in glob.glob(os.path.join(checkpoint, "*.safetensors")):
        tensors.update(safetensors_file.read(shard)[1])
    return {name: floats(tensor) for name, tensor in tensors.items()}


def named(tensors, place):
    return {name[len(place):]: value for name, value in tensors.items() if name.startswith(place)}


class Ema(Case):
    def assert_near(self, one, other):
        self.assertEqual(one.keys(), other.keys())
        for name in one:
            for a, b in zip(one[name], other[name], strict=True):
                self.assertAlmostEqual(a, b, delta=2e-6, msg=name)

    def assert_follows(self, run, decay):
        """Each checkpoint's average is that of the one before and of its own model."""
        first, *rest = [saved_in(path) for path in run.checkpoints]
        average = named(first, "average/")
        self.assertTrue(average)
        for step, saved in enumerate(rest, start=2):
            share = 1 - min(decay, (1 + step) / (10 + step))
            model = named(saved, "model/")
            average = {name: [a + share * (w - a) for a, w in zip(average[name], model[name])]
                       for name in average}
            self.assert_near(named(saved, "average/"), average)
        left = safetensors_file.read(run.path("model.safetensors"))[1]
        self.assert_near({name: floats(tensor) for name, tensor in left.items()}, average)

    # Where workers' models differ, it is of their mean. They merge in the last step: DiLoCo's merge after
    # it would be no step, though it moves the model.
    def test_follows_the_model_step_by_step(self):
        for sync in ["--sync=allreduce"], ["--sync=local", "--every=3"], ["--sync=diloco", "--every=3"]:
            with self.subTest(sync=sync):
                run = self.train("run" + sync[0], *sync, "--workers=2", "--steps=6", "--ema=0.4",
                                 "--checkpoint-every=1", "--keep-checkpoints=9")
                self.assert_follows(run, 0.4)

    def test_changes_no_step(self):
        plain = self.train("plain", "--workers=2", "--steps=20")
        averaged = self.train("averaged", "--workers=2", "--steps=20", "--ema=0.9")
        self.assertEqual(averaged.losses, plain.losses)
        self.assertNotEqual(averaged.sha, plain.sha)
        self.assertNotEqual(averaged.summary["test_loss"], plain.summary["test_loss"])

    def test_is_what_asup_eval_tests(self):
        run = self.train("run", *NORMED, "--workers=2", "--steps=8", "--ema=0.9")
        marks = self.path("marks.json")

        def test_loss():
            self.call("eval", run.folder, f"--json={marks}")
            with open(marks) as file:
                return json.load(file)["test_loss"]

        self.assertAlmostEqual(test_loss(), run.summary["test_loss"], delta=1e-5)
        os.remove(run.path("model.safetensors"))  # then, of the checkpoint
        self.assertAlmostEqual(test_loss(), run.summary["test_loss"], delta=1e-5)

    def test_comes_back_with_a_checkpoint(self):
        for flags in (["--sync=allreduce", *NORMED], ["--sync=local", "--every=3"], ["--sync=gossip"]):
            with self.subTest(flags=flags):
                flags = [*flags, "--workers=2", "--steps=9", "--ema=0.9"]
                whole = self.train("whole" + flags[0], *flags)
                parts = self.train("parts" + flags[0], *flags, "--stop-at=4")
                self.call("train", f"--resume={parts.folder}")
                self.assertEqual(parts.sha, whole.sha)
                self.assertEqual(parts.summary["test_loss"], whole.summary["test_loss"])

    def test_goes_on_with_other_workers_and_by_another_way(self):
        run = self.train("run", "--sync=local", "--every=3", "--workers=3", "--steps=20", "--ema=0.9",
                         "--stop-at=10")
        before = named(saved_in(run.checkpoints[-1]), "average/")
        self.call("train", f"--resume={run.folder}", "--workers=2", "--sync=allreduce",
                  "--steps=10")
        after = safetensors_file.read(run.path("model.safetensors"))[1]
        self.assert_near({name: floats(tensor) for name, tensor in after.items()}, before)

    def test_survives_a_change_of_the_way(self):
        run = self.train("run", "--sync=local", "--every=3", "--then=allreduce", "--at=4",
                         "--workers=2", "--steps=7", "--ema=0.4", "--checkpoint-every=1",
                         "--keep-checkpoints=9")
        self.assert_follows(run, 0.4)

    def test_a_run_keeps_to_it(self):
        run = self.train("run", "--steps=4", "--stop-at=2", "--ema=0.9")
        self.assertIn("ema = 0.9, which cannot become 0.5",
                      self.refused("train", f"--resume={run.folder}", "--ema=0.5"))


if __name__ == "__main__":
    unittest.main()
