"""Training on folders and shards of image files, some of them broken. Python's standard library only."""

import io
import json
import os
import shutil
import struct
import tarfile
import unittest
import zlib

from harness import Case, Run

SIZE = 16
FLAGS = ["--model=cnn", "--width=4", "--batch=16", "--threads=1", "--log-every=1", "--seed=3",
         "--optimizer=adam", "--lr=0.003", "--workers=2", "--data-threads=2",
         "--checkpoint-every=never"]


def png(width, height, pixel):
    """A PNG file; pixel(x, y) gives red, green and blue."""
    def chunk(name, data):
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in pixel(x, y))
                    for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def striped(down, seed, size=SIZE):
    """Stripes, across or down, at a place of their own."""
    def pixel(x, y):
        on = ((y if down else x) + seed) // 2 % 2
        return (200 - seed % 50, 180, 160 + seed % 60) if on else (30 + seed % 40, 60, 20)
    return png(size, size, pixel)


class Images(Case):
    def setUp(self):
        super().setUp()
        self.data = self.path("data")
        for split, count in (("train", 48), ("val", 24)):
            for down, name in enumerate(("across", "down")):
                os.makedirs(f"{self.data}/{split}/{name}")
                for i in range(count):
                    self.put(f"{split}/{name}/{i:03}.png", striped(down, 7 * i + down))

    def put(self, name, data):
        with open(f"{self.data}/{name}", "wb") as file:
            file.write(data)

    def learn(self, name, *flags, data=None, **options):
        done = self.call("train", *FLAGS, f"--data={data or 'imagefolder:' + self.data}",
                         f"--out={self.path(name)}", *flags, **options)
        return Run(self.path(name)), done

    def test_a_folder_with_a_broken_image_is_learned(self):
        os.remove(f"{self.data}/train/down/005.png")
        self.put("train/down/005.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xdb\0C")
        run, done = self.learn("run", "--epochs=6", "--augment-shift=2", "--augment-flip")
        summary = run.summary
        self.assertGreaterEqual(summary["test_accuracy"], 0.95)
        self.assertEqual(summary["broken_samples"], 1)
        self.assertEqual((summary["train_samples"], summary["test_samples"]), (96, 48))
        self.assertIn("train/down/005.jpg is a broken JPEG", done.stderr)
        self.assertIn("measured on 95 of 96 training images", done.stdout)
        self.assertIn("1 image could not be read", done.stdout)
        with open(run.path("evaluation.json")) as file:
            evaluation = json.load(file)
        self.assertEqual(evaluation["classes"], ["across", "down"])
        self.assertEqual(len(evaluation["first"]), 24)
        marks = self.marks(run)
        self.assertEqual(marks["test_accuracy"], summary["test_accuracy"])
        self.assertAlmostEqual(marks["test_loss"], summary["test_loss"], 5)
        # An image to test on that is broken is counted, each time.
        self.put("val/across/000.png", b"")
        for _ in range(2):
            marks = self.marks(run)
            self.assertGreaterEqual(marks["test_accuracy"], 0.95)
            self.assertEqual((marks["test_samples"], marks["broken_samples"]), (48, 1))

    def marks(self, run):
        self.call("eval", run.folder, f"--json={self.path('marks')}")
        with open(self.path("marks")) as file:
            return json.load(file)

    def test_workers_and_threads_make_no_difference(self):
        flags = ["--steps=4", "--image-size=12", "--augment-crop=0.3", "--augment-flip",
                 "--augment-jitter=0.4,0.4,0.4,0.1", "--augment-cutout=4", "--augment-mixup=0.2",
                 "--conv-path=native", "--eval-every=never"]
        losses = [self.learn(f"run{i}", *flags, *more)[0].losses for i, more in enumerate(
            [["--data-threads=1"], ["--data-threads=3"], ["--workers=1"], ["--workers=4"]])]
        self.assertEqual(losses[0], losses[1])
        for other in losses[2:]:
            for a, b in zip(losses[0], other):
                self.assertAlmostEqual(a, b, places=4)

    def test_shards_are_the_folder_packed(self):
        shards = self.path("shards")
        os.makedirs(shards)
        for split in ("train", "val"):
            with tarfile.open(f"{shards}/{split}-000000.tar", "w") as archive:
                for label, name in enumerate(("across", "down")):
                    folder = f"{self.data}/{split}/{name}"
                    for file in sorted(os.listdir(folder)):
                        key = f"{name}-{file[:-4]}"
                        archive.add(f"{folder}/{file}", f"{key}.png")
                        info = tarfile.TarInfo(f"{key}.cls")
                        info.size = 1
                        archive.addfile(info, io.BytesIO(str(label).encode()))
        flags = ["--steps=3", "--augment-flip", "--conv-path=native"]
        self.assertEqual(self.learn("folder", *flags)[0].sha,
                         self.learn("packed", *flags, data=f"shards:{shards}")[0].sha)
        self.assertIn("has an image and no class", self.refuse_shards_without_class(shards))

    def refuse_shards_without_class(self, shards):
        with tarfile.open(f"{shards}/train-000001.tar", "w") as archive:
            archive.add(f"{self.data}/val/down/000.png", "lonely.png")
        return self.refused("train", *FLAGS, f"--data={shards}", f"--out={self.path('no')}")

    def test_bad_folders_are_refused_with_a_sentence(self):
        def refused(*flags):
            return self.refused("train", *FLAGS, f"--data=imagefolder:{self.data}",
                                f"--out={self.path('no')}", *flags)

        self.put("train/down/big.png", striped(True, 1, 40))
        shutil.copy(f"{self.data}/train/down/big.png", f"{self.data}/train/across/000.png")
        self.assertIn("are of different sizes", refused())
        self.assertIn("augment-crop", refused("--augment-crop=2"))
        self.assertIn("like 0.4,0.4,0.4,0.1", refused("--augment-jitter=1,2"))
        os.makedirs(f"{self.data}/train/empty")
        os.makedirs(f"{self.data}/val/empty")
        self.assertIn("train/empty holds no images", refused("--image-size=16"))
        shutil.rmtree(f"{self.data}/train/empty")
        self.assertIn("val has classes that", refused("--image-size=16"))
        self.assertFalse(os.path.exists(self.path("no")))

    def test_the_benchmark_names_what_it_cannot_decode(self):
        bench = ["bench", "images", "--quick", f"--data={self.data}"]
        self.assertIn("train/across/000.png is no plain JPEG", self.refused(*bench))
        self.put("train/across/000.png", b"")
        self.assertIn("train/across/000.png is empty", self.refused(*bench))

    def test_a_folder_of_broken_images_alone_ends_the_run(self):
        for name in ("across", "down"):
            for i in range(48):
                self.put(f"train/{name}/{i:03}.png", striped(False, i)[:60])
        done = self.learn("run", "--steps=2", "--normalise=0.5,0.5,0.5:0.25,0.25,0.25", status=2)[1]
        self.assertIn("96 images in a row are broken", done.stderr)


if __name__ == "__main__":
    unittest.main()
