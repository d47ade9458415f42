"""A run that was stopped goes on to the bits it would have had."""

import math
import os
import shutil
import signal
import struct
import unittest

from harness import PATIENCE, PROGRAM, SMALL, Case, Run

RUN = ["--steps=40", "--workers=2", "--schedule=cosine", "--warmup=5", "--optimizer=adam"]


class Resume(Case):
    def resume(self, run, *flags, status=0):
        done = self.call("train", f"--resume={run.folder}", *flags, status=status)
        return done.stderr

    def assert_same_end(self, run, whole):
        self.assertTrue(run.summary["finished"])
        self.assertEqual(run.sha, whole.sha)
        self.assertEqual(run.losses, whole.losses)
        self.assertEqual(run.summary["samples"], whole.summary["samples"])

    # An epoch has 17 steps: 25 is in the midst of the second.
    def test_a_stopped_run_ends_as_one_that_was_not(self):
        whole = self.train("whole", *RUN)
        parts = self.train("parts", *RUN, "--stop-at=25")
        self.assertFalse(parts.summary["finished"])
        self.assertEqual(parts.summary["step"], 25)
        self.resume(parts)
        self.assert_same_end(parts, whole)

    def test_who_is_asked_to_stop_leaves_a_checkpoint_in_any_case(self):
        whole = self.train("whole", *RUN)
        parts = self.train("parts", *RUN, "--checkpoint-every=never", "--stop-at=25")
        self.assertEqual(len(parts.checkpoints), 1)
        self.resume(parts)
        self.assert_same_end(parts, whole)

    def test_optimizers_of_our_own_go_on(self):
        for optimizer in "lars", "lamb", "asup":
            flags = [*RUN, f"--optimizer={optimizer}"]
            whole = self.train(f"whole-{optimizer}", *flags)
            parts = self.train(f"parts-{optimizer}", *flags, "--stop-at=25")
            self.resume(parts)
            self.assert_same_end(parts, whole)
            self.assertLess(whole.losses[-1], whole.losses[0])  # it learns

    # Three ranks over TCP add up in the order of a ring, which depends on how buckets lie.
    def test_rings_repeat_their_bits(self):
        flags = [*RUN, "--workers=3", "--links=tcp", "--model=cnn", "--width=4",
                 "--bucket-mb=0.01"]
        whole = self.train("whole", *flags)
        parts = self.train("parts", *flags, "--stop-at=17")
        self.resume(parts)
        self.assert_same_end(parts, whole)

    def test_a_signal_stops_with_a_checkpoint(self):
        flags = ["--steps=3000", "--workers=2", "--checkpoint-every=100000"]
        whole = self.train("whole", *flags)
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, *flags, f"--out={run.folder}")
        self.wait_for_step(run, 20, process)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertIn(f"continue with: asup train --resume {run.folder}", out)
        self.assertLess(run.summary["step"], 3000)
        self.assertEqual(len(run.checkpoints), 1)
        self.resume(run)
        self.assert_same_end(run, whole)

    # Each rank has statistics of its own until they are averaged for a test.
    def test_batch_norm_statistics_of_each_rank(self):
        flags = ["--model=resnet18", "--width=auto", "--steps=6", "--workers=2", "--batch=8",
                 "--synthetic-samples=64", "--synthetic-test-samples=8", "--eval-every=4"]
        whole = self.train("whole", *flags)
        parts = self.train("parts", *flags, "--stop-at=3", "--eval-every=2")
        self.resume(parts, "--eval-every=never")
        self.assert_same_end(parts, whole)

    def test_a_longer_run_goes_on_from_a_shorter_one(self):
        flags = ["--workers=2", "--nesterov", "--momentum=0.8"]
        whole = self.train("whole", *flags, "--epochs=3")
        run = self.train("run", *flags, "--epochs=2")
        self.resume(run, "--epochs=3")
        self.assert_same_end(run, whole)

    def test_into_another_folder(self):
        whole = self.train("whole", *RUN)
        parts = self.train("parts", *RUN, "--stop-at=25")
        before = sorted(os.listdir(parts.path("checkpoints")))
        other = Run(self.path("other"))
        self.resume(parts, f"--out={other.folder}")
        self.assert_same_end(other, whole)
        self.assertEqual(sorted(os.listdir(parts.path("checkpoints"))), before)
        self.assertEqual(parts.summary["step"], 25)

    def test_with_another_number_of_workers(self):
        whole = self.train("whole", *RUN)
        run = self.train("run", *RUN, "--stop-at=20")
        for workers in (3, 1):
            with self.subTest(workers=workers):
                other = Run(self.path(f"on-{workers}"))
                self.resume(run, f"--workers={workers}", f"--out={other.folder}")
                summary = other.summary
                self.assertTrue(summary["finished"])
                self.assertEqual(summary["workers"], workers)
                self.assertEqual(summary["samples"], whole.summary["samples"])
                # The same batches, added up in another order.
                for one, two in zip(other.losses, whole.losses, strict=True):
                    self.assertAlmostEqual(one, two, 4)

    def test_what_cannot_be_resumed_is_refused(self):
        run = self.train("run", *RUN, "--stop-at=20", "--checkpoint-every=10")
        self.assertEqual(len(run.checkpoints), 2)
        resume = ["train", f"--resume={run.folder}"]
        self.assertIn("the run has model = mlp, which cannot become cnn",
                      self.refused(*resume, "--model=cnn"))
        self.assertIn("the run has width = 16, which cannot become 8",
                      self.refused(*resume, "--width=8"))
        self.assertIn("has done 20 steps, which is more than the 19 asked for",
                      self.refused(*resume, "--steps=19"))
        self.assertIn("is not a run folder", self.refused("train", f"--resume={self.place}"))
        shutil.rmtree(run.path("checkpoints"))
        self.assertIn("has no checkpoint to resume from", self.refused(*resume))

    def make_images(self, side):
        """A data set in MNIST's format, of square images."""
        os.makedirs(self.path("data"), exist_ok=True)
        for part, count in ("train", 96), ("t10k", 24):
            for name, shape in ("images-idx3", (count, side, side)), ("labels-idx1", (count,)):
                with open(self.path(f"data/{part}-{name}-ubyte"), "wb") as file:
                    file.write(struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape))
                    file.write(bytes(i % 10 for i in range(math.prod(shape))))

    # The model is another one because the images are.
    def test_another_model_is_refused(self):
        flags = ["train", "--model=mlp", f"--data={self.path('data')}", "--batch=24", "--threads=1"]
        for workers in 1, 2:
            with self.subTest(workers=workers):
                self.make_images(8)
                folder = self.path(f"run-{workers}")
                self.call(*flags, f"--workers={workers}", "--steps=4", f"--out={folder}")
                self.make_images(6)
                for command in [["train"], ["run", "-n", str(workers), "--", PROGRAM, "train"]]:
                    self.assertIn("the checkpoint is of another model: it has",
                                  self.refused(*command, f"--resume={folder}", "--steps=8"))

    def test_a_run_of_another_version_is_refused(self):
        run = self.train("run", *RUN, "--stop-at=20")
        path = run.path("config.toml")
        with open(path) as file:
            text = file.read()
        self.assertIn("\nformat = 3 ", text)
        for other in "\nformat = 2 ", "\n# none":  # an earlier one; one before there was a format
            with open(path, "w") as file:
                file.write(text.replace("\nformat = 3 ", other))
            self.assertIn("is a run of another version of asup, which this one cannot continue",
                          self.refused("train", f"--resume={run.folder}"))
        with open(path, "w") as file:
            file.write(text)
        self.resume(run)
        self.assertTrue(run.summary["finished"])

    SHARD = "shard-1-of-2.safetensors"
    DAMAGES = [  # to a file, what becomes of it (nothing: it is missing), and what is said
        ("index.json", lambda whole: whole[:-100], "is no checkpoint of asup, or corrupt"),
        ("index.json", lambda whole: whole.replace(b"adam", b"sgd "), "is corrupt"),
        (SHARD, lambda whole: whole[:-100], "is cut short"),
        (SHARD, lambda whole: whole[:-30] + b"?" + whole[-29:], "is corrupt"),
        (SHARD, None, "cannot be read"),
    ]

    @staticmethod
    def damage(path, damage):
        with open(path, "rb") as file:
            whole = file.read()
        os.remove(path)
        if damage:
            with open(path, "wb") as file:
                file.write(damage(whole))

    def test_a_damaged_checkpoint_is_skipped_for_one_that_is_whole(self):
        whole = self.train("whole", *RUN)
        run = self.train("run", *RUN, "--stop-at=20", "--checkpoint-every=10")
        for number, (name, damage, why) in enumerate(self.DAMAGES):
            with self.subTest(name=name, why=why):
                copy, other = Run(self.path(f"copy-{number}")), Run(self.path(f"other-{number}"))
                shutil.copytree(run.folder, copy.folder)
                good, bad = copy.checkpoints
                self.damage(os.path.join(bad, name), damage)
                said = self.resume(copy, f"--out={other.folder}")
                self.assertRegex(said, f"{bad}.*: {why}.*It is skipped: {good} is whole")
                self.assert_same_end(other, whole)
                self.assertEqual(copy.checkpoints, [good, bad], "another run's stay")

        # In place the name shows it, and it does not count among those that are kept.
        self.damage(os.path.join(run.checkpoints[-1], self.SHARD), None)
        self.resume(run, "--stop-at=30", "--keep-checkpoints=2")
        self.assertEqual(sorted(os.listdir(run.path("checkpoints"))),
                         ["corrupt-step-00000020", "step-00000020", "step-00000030"])
        self.assertNotIn("skipped", self.resume(run))
        self.assert_same_end(run, whole)

    def test_a_run_without_a_whole_checkpoint_is_refused(self):
        run = self.train("run", *RUN, "--stop-at=20", "--checkpoint-every=10")
        for checkpoint in run.checkpoints:
            self.damage(os.path.join(checkpoint, "index.json"), lambda whole: whole + b"?")
        for flags in [], ["--workers=1"]:
            message = self.refused("train", f"--resume={run.folder}", *flags)
            self.assertIn("has no whole checkpoint to resume from", message)
            for checkpoint in run.checkpoints:
                self.assertIn(f"{checkpoint}: is", message)

    def files(self, run):
        """Everything in the run's folder: its bytes and when it was last written."""
        found = {}
        for place, folders, names in os.walk(run.folder):
            for name in folders + names:
                path = os.path.join(place, name)
                content = None
                if name in names:
                    with open(path, "rb") as file:
                        content = file.read()
                found[path] = content, os.stat(path).st_mtime_ns
        found[run.folder] = None, os.stat(run.folder).st_mtime_ns
        return found

    def test_a_finished_run_is_left_as_it_is(self):
        said = "already finished at step 34 of 34; give --epochs or --steps to go on\n"
        for ways in ["--workers=2"], ["--workers=1"], ["--workers=2", "--sync=server"], \
                ["--workers=2", "--sync=adpsgd"]:
            with self.subTest(ways=ways):
                run = self.train("-".join(ways), *ways, "--epochs=2")
                before = self.files(run)
                done = self.call("train", f"--resume={run.folder}")
                self.assertEqual(done.stdout, said)
                self.assertEqual(self.files(run), before)
        out = self.call("run", "-n", "2", "--no-prefix", "--", PROGRAM, "train",
                        f"--resume={run.folder}").stdout
        self.assertEqual(out, said)
        self.assertEqual(self.files(run), before)

    # It was killed between its last checkpoint and its summary.
    def test_a_run_without_its_end_is_ended(self):
        run = self.train("run", "--workers=2", "--epochs=1")
        sha = run.sha
        os.remove(run.path("summary.json"))
        self.resume(run)
        self.assertEqual(run.sha, sha)


if __name__ == "__main__":
    unittest.main()
