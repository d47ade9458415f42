"""Label smoothing is of training alone."""

import unittest

from harness import Case


class LabelSmoothing(Case):
    # So small a rate leaves the model as it is.
    def test_is_of_the_training_loss_alone(self):
        flags = ["--steps=2", "--workers=2", "--lr=1e-9"]
        for more in [], ["--augment-mixup=0.4"]:
            plain = self.train("plain", *flags, *more)
            smooth = self.train("smooth", *flags, *more, "--label-smoothing=0.3")
            self.assertNotAlmostEqual(smooth.losses[0], plain.losses[0], delta=1e-3)
            self.assertAlmostEqual(smooth.summary["test_loss"], plain.summary["test_loss"],
                                   delta=1e-5)


if __name__ == "__main__":
    unittest.main()
