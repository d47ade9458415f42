"""Models and data sets of users' own, in shared libraries."""

import os
import shutil
import unittest

from harness import Case, Run

MINE, ANOTHER_VERSION, NOTHING, THROWS = os.environ["ASUP_PLUGINS"].split(":")
SPIRALS = ["--batch=50", "--threads=1", "--log-every=1", "--workers=2", "--optimizer=adam"]


class Plugins(Case):
    def spirals(self, name, *flags, **options):
        self.call("train", f"--model={MINE}", f"--data={MINE}", *SPIRALS, *flags,
                  f"--out={self.path(name)}", **options)
        return Run(self.path(name))

    def test_a_model_and_data_of_one_s_own_are_learnt(self):
        run = self.spirals("run", "--epochs=10", "--lr=0.01")
        self.assertGreater(run.summary["test_accuracy"], 0.9)
        self.assertEqual(run.summary["test_samples"], 500)
        self.call("eval", run.folder)
        self.assertIn("output.bias and output.weight begin fresh", self.call(
            "train", f"--model={MINE}", "--data=synthetic", "--synthetic-shape=1x1x2", "--steps=1",
            f"--init={run.folder}", f"--out={self.path('tuned')}").stdout)

    def test_it_goes_on_to_the_same_bits_also_from_another_place(self):
        whole = self.spirals("whole", "--steps=30")
        parts = self.spirals("parts", "--steps=30", "--stop-at=13")
        elsewhere = self.path("libmine.so")
        shutil.copy(MINE, elsewhere)
        # By a relative path, too: the test's folder is the current one.
        self.call("train", f"--resume={parts.folder}", "--model=./libmine.so")
        self.assertEqual(parts.sha, whole.sha)
        with open(parts.path("config.toml")) as file:
            self.assertIn(f'model = "{elsewhere}"', file.read())

    def test_with_asup_s_own_models_and_data(self):
        run = self.spirals("run", "--model=mlp", "--width=8", "--steps=3")
        self.assertEqual(run.summary["model"], "mlp")
        self.call("train", f"--model={MINE}", "--data=synthetic", "--synthetic-shape=3x4x4",
                  "--width=8", "--steps=3", f"--out={self.path('other')}")
        self.assertIn("cnn takes images of channels x height x width", self.refused(
            "train", "--model=cnn", f"--data={MINE}"))
        self.assertIn("no images, which can be shifted or mirrored", self.refused(
            "train", "--model=mlp", f"--data={MINE}", "--augment-flip"))

    def test_a_folder_is_named_after_it(self):
        self.call("train", f"--model={MINE}", f"--data={MINE}", *SPIRALS, "--steps=1")
        (name,) = os.listdir(self.path("runs"))
        self.assertTrue(name.startswith("libmine-so-libmine-so-"), name)

    def test_what_cannot_be_used_is_refused(self):
        def refused(library, flag="model"):
            return self.refused("train", "--model=mlp", "--data=synthetic", f"--{flag}={library}")

        self.assertRegex(refused(ANOTHER_VERSION),
                         r"was built for asup 0.0.9 with interface 1 and torch 2.10.0, and this is "
                         r"asup \d.* with interface \d+ and torch 2.*: build it again")
        self.assertIn("has no model for asup: ASUP_MODEL(…) is not in it", refused(NOTHING))
        self.assertIn("has no dataset for asup: ASUP_DATASET(…) is not in it",
                      refused(NOTHING, "data"))
        self.assertIn("throws.so: out of luck", refused(THROWS))
        self.assertIn("threw something that is no std::exception", refused(THROWS, "data"))
        self.assertIn("there is no such library", refused(self.path("none.so")))
        with open(self.path("text.so"), "w") as file:
            file.write("not a library")
        self.assertRegex(refused(self.path("text.so")), "text.so: cannot be loaded .*build it again")


if __name__ == "__main__":
    unittest.main()
