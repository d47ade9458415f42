"""What a person sees: the live display on a terminal, lines elsewhere, and the report."""

import fcntl
import html.parser
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import time
import unittest

from harness import SMALL, Case, Run

RUN = ["train", *SMALL, "--epochs=3", "--workers=2", "--out=run"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def words(text):
    """As they follow each other, in however many lines."""
    return " ".join(text.replace("·", " ").split())


class Display(Case):
    def on_terminal(self, columns, *flags, status=0, **environment):
        """Everything that the command draws on a terminal of so many columns."""
        parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = dict(self.environment, TERM="xterm", **environment)
        process = subprocess.Popen(self.command(*flags), env=environment, cwd=self.place,
                                   stdin=child, stdout=child, stderr=child)
        self.addCleanup(self.end, process)
        os.close(child)
        drawn = b""
        while True:
            try:
                piece = os.read(parent, 65536)
            except OSError:  # the last one closed the terminal
                break
            if not piece:
                break
            drawn += piece
        os.close(parent)
        self.assertEqual(process.wait(), status, drawn)
        return drawn.decode()

    def lines_on_terminal(self, columns, *flags, **options):
        """What a terminal of so many columns shows, the frames of the live line one by one; checks
        that it would break none of these lines."""
        drawn = self.on_terminal(columns, *flags, NO_COLOR="1", **options)
        self.assertNotRegex(drawn, r"\x1b\[[0-9;]*m")
        lines = re.split(r"[\r\n]+", ESCAPE.sub("", drawn))
        for line in lines:
            self.assertLess(len(line), columns, line)
        return lines

    def test_live(self):
        drawn = self.on_terminal(100, *RUN)
        self.assertIn("━", drawn)
        self.assertIn("\x1b[36m", drawn)
        self.assertEqual(drawn.count("\x1b[?25l"), 1)  # the cursor is hidden once …
        self.assertGreater(drawn.rfind("\x1b[?25h"), drawn.rfind("\x1b[?25l"))  # … and comes back
        plain = ESCAPE.sub("", drawn)
        for epoch in 1, 2, 3:
            self.assertRegex(plain, rf"\r +{epoch}/3 +[\d.]+ +[\d.]+ +[\d.]+ % +\d:\d\d +[\d,]+ +\d+ %")
        self.assertRegex(plain, r"test accuracy +[\d.]+ %\s+test top-5 +[\d.]+ %\s+test loss +[\d.]+\s+train loss +[\d.]+")
        self.assertRegex(plain, r"report +run/report.html")

    # What does not fit is left out of tables, the last columns first, and goes on in the next line
    # where it is prose.
    def test_every_width_has_whole_columns_and_words(self):
        said = self.call(*RUN).stdout.splitlines()[0].removeprefix("asup train: ")
        for columns, last_head in (40, "test loss"), (56, "time"), (64, "time"), (80, "comm"), (100, "comm"):
            lines = self.lines_on_terminal(columns, *RUN)
            self.assertIn(words(said), words(" ".join(lines)))
            self.assertRegex("".join(lines), r"━ +\d+ %   train loss [\d.]+")
            head, = [line for line in lines if "train loss  test loss" in line]
            self.assertTrue(head.endswith(last_head), head)
            for epoch in 1, 2, 3:
                row, = [line for line in lines if re.match(rf" +{epoch}/3 +[\d.]+ +[\d.]+", line)]
                self.assertEqual(len(row), len(head), row)
            self.assertRegex(lines[-2], r"report +run/report.html")

    def test_a_test_between_two_epochs_has_a_row(self):
        lines = self.lines_on_terminal(80, *RUN, "--epochs=2", "--eval-every=3")
        row = re.compile(r" +(\d+\.\d\d)/2 +[\d.]+ +[\d.]+ +[\d.]+ % ")
        tests = [match[1] for match in map(row.match, lines) if match]
        self.assertEqual(tests, [f"{step / 17:.2f}" for step in range(3, 34, 3)])
        self.assertEqual(sum(bool(re.match(r" +1/2 +[\d.]+ {28}", line)) for line in lines), 1)

    def test_reasons_break_between_words(self):
        lines = self.lines_on_terminal(56, *RUN, "--lr=1000", "--non-finite=apply", status=1)
        self.assertRegex(" ".join(lines), r"training has diverged\. A lower learning rate \(lr is 1000\) or a")

    def test_lines_elsewhere(self):
        out = self.call(*RUN).stdout
        self.assertRegex(out.splitlines()[0], r" · sgd, lr 0\.05 · ")
        self.assertNotIn("\x1b", out)
        self.assertNotIn("\r", out)
        self.assertRegex(out, r"(?m)^epoch 3/3  step 51/51  train loss [\d.]+  \d+ samples/s")
        self.assertRegex(out, r"(?m)^epoch 3/3  step 51/51  test accuracy [\d.]+ %")
        self.assertEqual(self.call(*RUN, "--progress=none").stdout, "")
        on_terminal = self.lines_on_terminal(56, *RUN, "--progress=plain")
        self.assertRegex(words(" ".join(on_terminal)), r"epoch 3/3 step 51/51 train loss [\d.]+ \d+ samples/s communication")

    def test_short_epochs_do_not_fill_a_log(self):
        began = time.monotonic()
        out = self.call("train", *SMALL, "--workers=1", "--batch=200", "--epochs=200", "--eval-every=never",
                        "--checkpoint-every=never").stdout
        most = 1 + (time.monotonic() - began) / 5  # the last, and one every five seconds
        self.assertLessEqual(len(re.findall(r"(?m)^epoch .* train loss", out)), most, out)
        self.assertRegex(out, r"(?m)^epoch 200/200  step 400/400  train loss [\d.]+")

    def test_a_stopped_run_says_how_far_it_came(self):
        out = self.call(*RUN, "--stop-at=20").stdout
        self.assertRegex(out, r"(?m)^epoch 2/3  step 20/51  train loss [\d.]+ .*\nstopped after step 20 of 51")

    def test_a_run_that_makes_room_says_where_it_is_now(self):
        said = "the run that was in run is now in run.previous-"
        self.assertNotIn(said, self.call(*RUN).stdout)
        self.assertIn(said + "1\n", self.call(*RUN).stdout)
        self.assertIn(said + "2", ESCAPE.sub("", self.on_terminal(100, *RUN)))
        for folder in "run", "run.previous-1", "run.previous-2":
            self.assertTrue(os.path.exists(self.path(folder + "/summary.json")), folder)

    def test_benchmarks_fit_every_width(self):
        flags = ["bench", "collective", "--quick", "--op=broadcast", "--sizes=64K", "--link=inproc"]
        heads = {40: "size algorithm p50 us", 60: "size algorithm p50 us bus GB/s of limit",
                 80: "size algorithm min us p50 us p99 us bus GB/s of limit"}
        for columns, head in heads.items():
            lines = self.lines_on_terminal(columns, *flags)
            self.assertIn(head, [words(line) for line in lines])
            self.assertIn("broadcast of f32 on 2 ranks over inproc, shared buffers", words(" ".join(lines)))
        _, head, row = self.call(*flags).stdout.splitlines()
        self.assertRegex(head, r"^ {8}size algorithm {16}min us {7}p50 us {7}p99 us {3}bus GB/s {2}of limit$")
        self.assertEqual(len(row), len(head))

    def test_a_diverged_run_gives_the_cursor_back(self):
        drawn = self.on_terminal(100, *RUN, "--lr=1000", status=1)
        self.assertIn("diverged", drawn)
        self.assertGreater(drawn.rfind("[?25h"), drawn.rfind("[?25l"))

    def test_list_has_models_and_data_sets(self):
        out = self.call("train", "--list").stdout
        self.assertIn("resnet18", out)
        self.assertIn("fashion-mnist", out)


class Page(html.parser.HTMLParser):
    """Collects the runs' figures and everything the page would load."""

    def __init__(self):
        super().__init__()
        self.loads, self.data, self.inside = [], "", False

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.loads += [attributes[name] for name in ("src", "href") if name in attributes]
        self.inside = attributes.get("id") == "data"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.data += data


class Report(Case):
    def runs_of(self, name):
        with open(self.path(name)) as file:
            text = file.read()
        page = Page()
        page.feed(text)
        self.assertEqual(page.loads, [])  # it needs nothing from outside
        addresses = set(re.findall(r"https?://[^\s\"'<]+", text.replace(page.data, "")))
        self.assertEqual(addresses, {"http://www.w3.org/2000/svg"})
        return json.loads(page.data)["runs"]

    def read(self):
        run, = self.runs_of("run/report.html")
        return run

    def test_is_made_with_the_run_and_again(self):
        self.call(*RUN, "--synthetic-shape=3x8x8", "--data=synthetic")
        run = self.read()
        self.assertEqual(len(run["steps"]), 51)
        self.assertEqual(len(run["tests"]), 3)
        self.assertEqual(sum(run["evaluation"]["confusion"]), 90)
        self.assertEqual(len(run["evaluation"]["first"]), 24)
        for example in run["evaluation"]["first"]:
            self.assertTrue(example["image"].startswith("data:image/png;base64,iVBORw0KGgo"))

        os.remove(self.path("run/report.html"))
        out = self.call("report", "run").stdout
        self.assertRegex(out, r"test accuracy +[\d.]+ %")
        self.assertEqual(self.read(), run)

    def test_texts_of_the_run_cannot_break_out(self):
        self.call(*RUN)
        with open(self.path("run/config.toml"), "a") as file:
            file.write("# </script><script>alert(1)</script>\n")
        self.call("report", "run")
        self.assertIn("</script><script>alert(1)", self.read()["config"])

    def test_says_where_the_run_comes_from(self):
        self.call(*RUN, "--width=16")
        summary = self.read()["summary"]
        self.assertRegex(summary["command"], r"^asup train --model=mlp .*--workers=2 --out=run --width=16$")
        self.assertRegex(summary["began"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}$")
        self.assertEqual(summary["hosts"], [socket.gethostname()])
        self.assertRegex(summary["versions"], r"^asup \d+\.\d+\.\d+, torch \d+\.\d+.*, \S+ kernels$")

    def test_has_the_time_of_each_worker(self):
        self.call(*RUN)
        workers = self.read()["workers"]
        self.assertEqual(len(workers), 2)
        trained = Run(self.path("run")).summary["train_seconds"]
        for worker in workers:
            self.assertGreater(worker["computing_s"], 0)
            self.assertGreaterEqual(worker["waiting_s"], 0)
            self.assertAlmostEqual(worker["computing_s"] + worker["waiting_s"], trained, places=6)

    def test_a_diverged_run_has_its_curve(self):
        said = self.call(*RUN, "--lr=1000", "--log-every=1000", status=1).stderr
        self.assertIn("the loss became", said)
        run = self.read()  # made when it failed
        self.assertEqual(run["status"], "failed")
        self.assertIn("the loss became", run["failure"])
        self.assertGreater(len(run["steps"]), 0)  # until then
        for absent in "weights_sha256", "peak_memory_bytes", "bytes_sent", "test_accuracy":
            self.assertNotIn(absent, run["summary"])
        out = self.call("report", "run").stdout
        self.assertRegex(out, r"(?m)^failed after step \d+ of 51: the loss became")
        self.assertNotRegex(out, r"(?m)^ .*nan")
        self.assertEqual(self.read(), run)

    def test_a_run_that_is_taken_up_again_has_not_failed(self):
        process = self.start("train", *SMALL, "--epochs=100000", "--workers=2",
                             f"--out={self.path('run')}", "--checkpoint-every=5")
        self.wait_for_step(Run(self.path("run")), 20, process)
        os.kill(self.members()["rank 1"], signal.SIGKILL)
        self.assertEqual(process.wait(), 1)
        self.assertIn("rank 1", self.read()["failure"])
        step = int(Run(self.path("run")).checkpoints[-1].split("-")[-1]) + 5
        self.call("train", "--resume=run", f"--stop-at={step}")
        self.assertEqual(self.read()["status"], "stopped")
        self.assertFalse(os.path.exists(self.path("run/failure.txt")))

    def test_a_run_without_an_end(self):
        process = self.start("train", *SMALL, "--epochs=100000", "--workers=1", "--out=run")
        self.wait_for_step(Run(self.path("run")), 20, process)
        self.assertRegex(self.call("report", "run").stdout, r"(?m)^running at step \d+ of")
        run = self.read()
        self.assertEqual(run["status"], "running")
        self.assertGreaterEqual(len(run["steps"]), 20)
        process.kill()
        process.wait()
        out = self.call("report", "run").stdout
        self.assertRegex(out, r"(?m)^killed after step \d+ of")
        self.assertRegex(out, r"test accuracy +[\d.]+ %")
        self.assertEqual(self.read()["status"], "killed")

    def test_a_run_of_which_nothing_is_known_is_refused(self):
        self.call(*RUN)
        os.remove(self.path("run/summary.json"))
        os.remove(self.path("run/facts.json"))
        self.assertIn("nothing is known of this run", self.refused("report", "run"))

    def test_compares_runs(self):
        self.call(*RUN)
        self.call(*RUN[:-1], "--lr=0.01", "--out=slow")
        out = self.call("report", "run", "slow").stdout
        self.assertRegex(out, r"(?m)^run +done +51 +[\d.]+ % +[\d.]+ ")
        self.assertRegex(out, r"(?m)^slow +done +51 ")
        self.assertIn("comparison.html", out)
        runs = self.runs_of("comparison.html")
        self.assertEqual([run["folder"] for run in runs], ["run", "slow"])
        self.assertEqual([len(run["steps"]) for run in runs], [51, 51])

        self.call("report", "run", "slow", "--out=other.html")
        self.assertEqual(self.runs_of("other.html"), runs)
        with open(self.path("thesis.html"), "w") as file:
            file.write("years of work")
        self.assertIn("is no page of asup", self.refused("report", "run", "slow", "--out=thesis.html"))
        self.assertIn("is not a run folder", self.refused("report", "run", "none"))
        self.assertIn("--out", self.refused("report", "run", "--out=other.html"))


if __name__ == "__main__":
    unittest.main()
