"""What tests of the report's page share: nothing that a browser shows may be wrong."""

import re

from harness import Case


class PageCase(Case):
    BAD_WORDS = re.compile(r"NaN|undefined|Infinity|\[object|null")

    def check_text(self, browser):
        self.assertEqual(browser.errors, [])
        text = browser.evaluate("document.body.innerText")
        self.assertIsNone(self.BAD_WORDS.search(text), text)
        return text

    def check_axes(self, browser):
        """Each axis has a name, and ticks with as many digits behind the point."""
        charts = browser.evaluate("""
            [...document.querySelectorAll('.card:not([hidden]) .plot svg')].map((svg) => ({
              names: [...svg.querySelectorAll('.axis')].map((e) => e.textContent),
              ticks: [...svg.querySelectorAll('text[text-anchor=end]')].map((e) => e.textContent),
              steps: [...svg.querySelectorAll('text[text-anchor=middle]:not(.axis)')].map((e) => e.textContent),
            }))""")
        self.assertGreater(len(charts), 0)
        for chart in charts:
            self.assertEqual(len(chart["names"]), 2, chart)
            self.assertTrue(all(chart["names"]), chart)
            self.assertGreater(len(chart["ticks"]), 1, chart)
            for ticks in chart["ticks"], chart["steps"]:
                self.assertEqual(len({len(tick.partition(".")[2]) for tick in ticks}), 1, chart)
                self.assertNotIn("-0", ticks)
        return charts
