"""A run leaves its model behind: to look at, to take elsewhere, to test and to go on from."""

import hashlib
import json
import os
import shutil
import signal
import struct

import unittest

import safetensors_file
from harness import PATIENCE, SMALL, Case, Run

def write_mnist(folder, side, classes, brightness=120):
    """A folder in MNIST format: 60 training and 30 test images."""
    os.makedirs(folder, exist_ok=True)
    for part, count in ("train", 60), ("t10k", 30):
        pixels = bytes((brightness + 7 * i * (i % classes + 1)) % 256
                       for i in range(count * side * side))
        with open(os.path.join(folder, f"{part}-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">4I", 0x803, count, side, side) + pixels)
        with open(os.path.join(folder, f"{part}-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + bytes(i % classes for i in range(count)))


NORMED = ["--model=resnet18", "--width=auto", "--synthetic-shape=3x8x8", "--synthetic-samples=64",
          "--synthetic-test-samples=40", "--batch=8", "--workers=2", "--steps=4", "--lr=0.001"]


class ModelFile(Case):
    def read(self, run):
        return safetensors_file.read(run.path("model.safetensors"))

    def test_says_what_it_is_of(self):
        run = self.train("run", "--steps=3", "--workers=2", "--checkpoint-every=never")
        metadata, tensors = self.read(run)
        self.assertEqual(metadata["model"], "mlp")
        self.assertEqual(metadata["input_shape"], "1x8x8")
        self.assertEqual(metadata["classes"], "10")
        self.assertEqual(metadata["step"], "3")
        self.assertEqual(json.loads(metadata["settings"])["width"], "16")
        self.assertRegex(metadata["asup"], r"\d+\.\d+")
        self.assertNotIn("normalisation", metadata)  # synthetic pixels are as they come
        self.assertEqual(metadata["weights_sha256"], run.sha)
        self.assertEqual({name: shape for name, (_, shape, _) in tensors.items()},
                         {"hidden.0.weight": [16, 64], "hidden.0.bias": [16],
                          "hidden.1.weight": [16, 16], "hidden.1.bias": [16],
                          "output.weight": [10, 16], "output.bias": [10]})
        # The hash that summary.json has is that of these bytes.
        index = [{"name": name, "type": "Float", "shape": tensors[name][1]}
                 for name in sorted(tensors)]
        text = json.dumps(index, separators=(",", ":")).encode()
        data = b"".join(tensors[name][2] for name in sorted(tensors))
        self.assertEqual(hashlib.sha256(text + data).hexdigest(), run.sha)

    def test_has_the_mean_of_all_statistics(self):
        run = self.train("run", *NORMED)
        _, tensors = self.read(run)
        self.assertEqual(tensors["bn1.num_batches_tracked"][:2], ("I64", []))
        mean = struct.unpack("<64f", tensors["bn1.running_mean"][2])
        own = []
        for name, tensor in run.saved["tensors"].items():
            if name.endswith("own/bn1.running_mean"):
                shard = os.path.join(run.checkpoints[-1], tensor["parts"][0]["shard"])
                own.append(struct.unpack("<64f", safetensors_file.read(shard)[1][name][2]))
        self.assertEqual(len(own), 2)
        self.assertNotEqual(own[0], own[1])
        for one, two, both in zip(*own, mean, strict=True):
            self.assertAlmostEqual((one + two) / 2, both, 5)

    def test_a_stopped_run_has_one_and_a_run_that_goes_on_has_none(self):
        run = self.train("run", "--steps=3000", "--workers=2", "--stop-at=5")
        self.assertEqual(self.read(run)[0]["step"], "5")
        process = self.start("train", f"--resume={run.folder}")
        self.wait_for_step(run, 20, process)
        self.assertFalse(os.path.exists(run.path("model.safetensors")))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(self.read(run)[0]["step"], str(run.summary["step"]))

    def test_a_changed_one_is_corrupt(self):
        run = self.train("run", "--steps=1")
        path = run.path("model.safetensors")
        with open(path, "rb") as file:
            whole = file.read()
        for damage, reason in ((whole[:-1] + b"?", "is corrupt"), (whole[:-9], "is cut short"),
                               (b"", "is cut short"), (b"something else", "is cut short")):
            with open(path, "wb") as file:
                file.write(damage)
            for command in ["eval"], ["export", "--format=torch"]:
                self.assertRegex(self.refused(*command, run.folder), f"{path}: {reason}")


class Killed(Case):
    """A run that was killed has no model.safetensors; its checkpoints have all of it."""

    def killed(self, *flags):
        whole = self.train("whole", *flags)
        run = Run(self.path("killed"))
        shutil.copytree(whole.folder, run.folder)
        os.remove(run.path("model.safetensors"))
        os.remove(run.path("summary.json"))
        return whole, run

    def test_is_read_from_its_newest_whole_checkpoint(self):
        whole, run = self.killed(*NORMED, "--checkpoint-every=2")
        self.call("export", run.folder, f"--out={self.path('killed.safetensors')}")
        metadata, tensors = safetensors_file.read(self.path("killed.safetensors"))
        expected, theirs = safetensors_file.read(whole.path("model.safetensors"))
        for key in expected.keys() - {"weights_sha256"}:  # means are rounded once more
            self.assertEqual(metadata[key], expected[key])
        self.assertEqual(tensors.keys(), theirs.keys())
        self.assertEqual(tensors["conv1.weight"], theirs["conv1.weight"])

        shard = os.path.join(run.checkpoints[-1], "shard-1-of-2.safetensors")
        with open(shard, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"?")
        done = self.call("export", run.folder, f"--out={self.path('before.safetensors')}")
        self.assertIn("is corrupt", done.stderr)
        self.assertEqual(safetensors_file.read(self.path("before.safetensors"))[0]["step"], "2")
        shutil.rmtree(run.path("checkpoints"))
        self.assertIn("has no weights to read yet", self.refused("eval", run.folder))

    def test_of_models_that_differ_the_mean_is_read(self):
        whole, run = self.killed("--sync=diloco", "--every=4", "--workers=2", "--steps=6")
        self.call("export", run.folder, f"--out={self.path('mean')}")
        theirs = safetensors_file.read(whole.path("model.safetensors"))[1]
        self.assertEqual(safetensors_file.read(self.path("mean"))[1].keys(), theirs.keys())


class Eval(Case):
    def evaluate(self, *flags):
        self.call("eval", *flags, f"--json={self.path('marks.json')}")
        with open(self.path("marks.json")) as file:
            return json.load(file)

    def test_equals_the_run_s_own_test(self):
        for name, flags in ("mlp", ["--steps=20", "--workers=2"]), ("resnet", NORMED):
            run = self.train(name, *flags)
            for place in run.folder, run.path("model.safetensors"):
                marks = self.evaluate(place)
                self.assertEqual(marks["test_accuracy"], run.summary["test_accuracy"])
                self.assertAlmostEqual(marks["test_loss"], run.summary["test_loss"], 5)
                self.assertEqual(marks["test_samples"], run.summary["test_samples"])
        out = self.call("eval", run.folder).stdout
        self.assertRegex(out, r"test accuracy +\d+\.\d\d %\n +test top-5 +\d+\.\d\d %\n +test loss +\d")
        out = self.call("run", "-n", "2", "--", *self.command("eval", run.folder)).stdout
        self.assertEqual(out.count("test accuracy"), 1)

    def test_on_other_data(self):
        run = self.train("run", "--steps=5")
        folder = self.path("images")
        write_mnist(folder, side=8, classes=10)
        self.assertEqual(self.evaluate(run.folder, f"--data={folder}")["test_samples"], 30)
        self.assertIn("tells 10 classes apart, and", self.refused(
            "eval", run.folder, f"--data={folder}", "--classes=12"))
        write_mnist(folder, side=9, classes=10)
        self.assertRegex(self.refused("eval", run.folder, f"--data={folder}"),
                         "is of a model for inputs of 1x8x8, and .* has 1x9x9")

    # The training images of another folder have another mean.
    def test_pixels_are_taken_as_in_training(self):
        bright, dark = self.path("bright"), self.path("dark")
        write_mnist(bright, side=8, classes=4, brightness=200)
        run = self.train("run", f"--data={bright}", "--classes=4", "--synthetic-shape=1x28x28",
                         "--synthetic-samples=8192", "--synthetic-test-samples=1024", "--batch=8",
                         "--steps=5")
        means = json.loads(safetensors_file.read(run.path("model.safetensors"))[0]["normalisation"])
        self.assertEqual(len(means["mean"]), 1)
        write_mnist(dark, side=8, classes=4, brightness=20)
        for name in os.listdir(bright):  # the same test images beside other training images
            if name.startswith("t10k"):
                shutil.copy(os.path.join(bright, name), dark)
        self.assertAlmostEqual(self.evaluate(run.folder, f"--data={dark}")["test_loss"],
                               run.summary["test_loss"], 5)

    def test_of_a_file_that_says_nothing_of_itself(self):
        run = self.train("run", "--steps=5")
        _, tensors = safetensors_file.read(run.path("model.safetensors"))
        plain = self.path("plain.safetensors")
        safetensors_file.write(plain, tensors)
        self.assertIn("does not say what it is of: give --model and --data",
                      self.refused("eval", plain))
        self.assertIn("does not fit model mlp: its hidden.0.bias is 16 f32, and the model's 256",
                      self.refused("eval", plain, "--model=mlp", "--data=synthetic"))
        self.assertIn("there is no such file or folder", self.refused("eval", self.path("none")))
        self.assertIn("is not a run folder", self.refused("eval", self.place))


class Init(Case):
    def test_begins_with_the_weights(self):
        first = self.train("first", "--steps=60", "--workers=2")
        for workers in 1, 2:
            run = self.train(f"on-{workers}", f"--init={first.folder}", "--steps=1",
                             f"--workers={workers}", "--lr=1e-6")
            self.assertLess(run.losses[0], first.losses[0] / 2)
            self.assertAlmostEqual(run.summary["test_loss"], first.summary["test_loss"], 2)

    def test_a_head_of_another_size_begins_fresh(self):
        first = self.train("first", "--steps=5")
        path = first.path("model.safetensors")
        flags = ["--steps=2", "--synthetic-classes=7", "--workers=2", "--lr=1e-9"]
        out = self.call("train", *SMALL, *flags, f"--init={first.folder}",
                        f"--out={self.path('tuned')}").stdout
        self.assertIn(f"begins with the weights of {path}; for 7 classes, output.bias and "
                      "output.weight begin fresh", out)
        before, after = (safetensors_file.read(one)[1]
                         for one in (path, self.path("tuned/model.safetensors")))
        self.assertEqual(after["output.weight"][1], [7, 16])
        one, two = (struct.unpack("<256f", each["hidden.1.weight"][2]) for each in (before, after))
        for a, b in zip(one, two, strict=True):
            self.assertAlmostEqual(a, b, 6)
        # The run goes on by itself, also where the file is gone.
        os.remove(path)
        self.call("train", f"--resume={self.path('tuned')}", "--steps=3")

    def test_what_does_not_fit_is_refused_by_name(self):
        first = self.train("first", "--steps=1")
        init = ["train", *SMALL, f"--init={first.folder}", f"--out={self.path('no')}"]
        self.assertRegex(self.refused(*init, "--width=8"),
                         "does not fit model mlp: its hidden.0.bias is 16 f32, and the model's 8 "
                         "f32. They are of width = 16: use these settings")
        self.assertRegex(self.refused(*init, "--workers=1", "--width=auto", "--model=cnn"),
                         "does not fit model cnn: it has no conv1.bias, but hidden.0.bias. They "
                         "are of model = mlp, width = 16")
        self.assertIn("They take inputs of 1x8x8", self.refused(*init, "--synthetic-shape=1x9x9"))
        self.assertIn("there is no such file", self.refused(*init, f"--init={self.path('none')}"))
        self.assertIn("give one of them", self.refused("train", f"--resume={first.folder}",
                                                       f"--init={first.folder}"))
        self.assertFalse(os.path.exists(self.path("no")))


if __name__ == "__main__":
    unittest.main()
