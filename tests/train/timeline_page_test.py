"""How the report shows a step of every worker, where a timeline is recorded."""

import unittest

from browser import Browser
from page_case import PageCase


class TimelinePage(PageCase):
    def test_the_report_has_a_picture(self):
        run = self.train("run", "--workers=2", "--steps=20", "--timeline")
        with Browser() as browser:
            browser.open("file://" + run.path("report.html"))
            browser.wait_for("document.querySelector('.steps svg')")
            text = self.check_text(browser)
            self.assertIn("A step of every worker", text)
            rows = browser.evaluate(
                "[...document.querySelectorAll('.steps svg > text')].map((e) => e.textContent)")
            for name in "rank 0", "rank 1", "training", "exchange":
                self.assertIn(name, rows)
            table = browser.evaluate(
                "[...document.querySelectorAll('.steps + .card th')].map((e) => e.textContent)")
            for head in "forward", "backward", "wait", "optimizer", "other":
                self.assertIn(head, table)
            wide = browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            self.assertTrue(wide)
        # Made anew from the file alone.
        self.call("report", run.folder)
        with open(run.path("report.html")) as file:
            self.assertIn("exchange under way", file.read())


if __name__ == "__main__":
    unittest.main()
