"""What TensorBoard shows of a run, read as TensorBoard reads it: what metrics.jsonl has, each step once."""

import glob
import os
import shutil
import signal
import struct
import time
import unittest

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from harness import PATIENCE, SMALL, Case, Run

CURVES = {
    "train/loss": "loss", "train/learning_rate": "lr", "train/samples_per_s": "samples_per_s",
    "train/communication_share": "comm_share", "train/consensus_distance": "consensus_distance",
    "test/loss": "test_loss", "test/accuracy": "test_accuracy",
}
TIMES = {"train/samples_per_s", "train/communication_share"}
EVERYTHING = {"scalars": 0, "images": 0}  # nothing is thinned out


def single(number):
    """As a float has it."""
    return struct.unpack("f", struct.pack("f", number))[0]


class TensorBoard(Case):
    def shown(self, run):
        shown = EventAccumulator(run.folder, size_guidance=EVERYTHING)
        shown.Reload()
        return shown

    def check_shows(self, run, times=True):
        """Its curves are the rows of metrics.jsonl; in steps alone, for times that two ranks measured."""
        shown = self.shown(run)
        for tag, key in CURVES.items():
            rows = [(row["step"], single(row[key])) for row in run.rows if key in row]
            points = [(point.step, point.value) for point in shown.Scalars(tag)] if rows else []
            if tag in TIMES and not times:
                points, rows = [[step for step, _ in pairs] for pairs in (points, rows)]
            self.assertEqual(points, rows, tag)
            self.assertEqual(tag in shown.Tags()["scalars"], bool(rows), tag)
        return shown

    def test_shows_the_curves_and_pictures_of_a_run(self):
        began = time.time()
        run = self.train("run", "--workers=2", "--epochs=3")
        shown = self.check_shows(run)
        self.assertEqual(len(shown.Scalars("train/loss")), 51)
        self.assertAlmostEqual(shown.Scalars("train/loss")[0].wall_time, began, delta=600)
        self.assertIn("test/mistakes", shown.Tags()["images"])
        pictures = shown.Images("test/samples")
        self.assertEqual([picture.step for picture in pictures], [17, 34, 51])
        for picture in pictures:  # 8 x 3 images of 8 x 8 pixels, each in a frame of 2
            self.assertEqual((picture.width, picture.height), (96, 36))
            self.assertEqual(picture.encoded_image_string[:8], b"\x89PNG\r\n\x1a\n")
            size = struct.unpack(">II", picture.encoded_image_string[16:24])
            self.assertEqual(size, (96, 36))

    def test_shows_how_far_apart_models_are(self):
        shown = self.check_shows(self.train("run", "--workers=2", "--epochs=2", "--sync=local"))
        self.assertIn("train/consensus_distance", shown.Tags()["scalars"])

    def test_shows_how_late_gradients_are(self):
        run = self.train("run", "--workers=2", "--epochs=3", "--sync=server", "--pace=asp")
        late = self.check_shows(run).Scalars("servers/staleness_steps")
        self.assertEqual([point.step for point in late], [17, 34, 51])
        # All epochs have the same samples.
        mean = sum(point.value for point in late) / 3
        self.assertAlmostEqual(mean, run.summary["server"]["mean_staleness_steps"], 4)

    def test_a_resumed_run_shows_no_step_twice(self):
        self.train("run", "--workers=2", "--epochs=3", "--checkpoint-every=17", "--stop-at=40")
        run = Run(self.path("run"))
        shutil.rmtree(run.checkpoints[-1])  # as if it had been killed: steps 35 to 40 come again
        self.call("train", f"--resume={run.folder}", f"--out={self.path('other')}")
        self.check_shows(Run(self.path("other")))
        self.call("train", f"--resume={run.folder}")
        self.assertEqual(len(run.losses), 51)
        self.check_shows(run)

    def test_goes_on_without_the_rank_that_wrote_it(self):
        run = Run(self.path("run"))
        process = self.start("train", *SMALL, "--workers=3", "--steps=680", "--sync=local",
                             "--eval-every=5", f"--out={run.folder}")
        self.wait_for_step(run, 20, process)
        os.kill(self.members()["rank 0"], signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(run.rows[-1]["step"], 680)
        self.check_shows(run, times=False)

    def test_can_be_left_out(self):
        run = self.train("run", "--workers=2", "--epochs=1", "--no-tensorboard")
        self.assertEqual(glob.glob(run.path("*tfevents*")), [])
        self.assertEqual(len(run.losses), 17)


if __name__ == "__main__":
    unittest.main()
