"""A run that is watched while it goes: asup train --live."""

import glob
import http.client
import json
import os
import re
import signal
import socket
import unittest

from browser import Browser
from harness import PATIENCE, SMALL, Case, Run
from page_case import PageCase

ENDLESS = ["--epochs=100000", "--eval-every=100", "--checkpoint-every=100"]


class Watched(Case):
    def begin(self, *flags):
        """Starts a run, and returns it with its page's port and token."""
        process = self.start("train", *SMALL, f"--out={self.path('run')}", "--live", *flags)
        for line in process.stdout:
            if found := re.fullmatch(r"live page  http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/\n", line):
                return process, int(found[1]), found[2]
        self.fail("there is no live page")

    def ask(self, port, path, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request(method, path)
        return connection.getresponse()

    def events(self, port, token):
        """(name, data) as the server tells them."""
        response = self.ask(port, f"/{token}/events")
        self.assertEqual(response.getheader("Content-Type"), "text/event-stream")
        name = None
        for line in response:
            key, _, value = line.decode().rstrip("\n").partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                yield name, json.loads(value)


class Server(Watched):
    def test_tells_the_run_and_then_its_rows(self):
        process, port, token = self.begin("--workers=2", *ENDLESS)
        events = self.events(port, token)
        name, run = next(events)
        self.assertEqual((name, run["status"]), ("run", "running"))
        steps = [row["step"] for name, row in (next(events) for _ in range(60))
                 if name == "row" and "loss" in row]
        self.assertGreater(len(steps), 30)
        self.assertEqual(steps, list(range(steps[0], steps[0] + len(steps))))

    def test_nothing_but_the_token_opens_it(self):
        process, port, token = self.begin("--workers=1", *ENDLESS)
        page = self.ask(port, f"/{token}/")
        self.assertEqual(page.status, 200)
        self.assertEqual(page.getheader("Referrer-Policy"), "no-referrer")
        self.assertIn('{"live":true}', page.read().decode())
        wrong = ("0" if token[-1] != "0" else "1")
        for path in ("/", "/events", "/favicon.ico", f"/{token}", f"/{token}/config.toml", f"/{token}x/",
                     f"/{token[:-1]}/", f"/{token[:-1]}{wrong}/", f"/{token[:-1]}{wrong}/events",
                     f"/{token}/../{token}/none", "/" + "a" * 5000):
            answer = self.ask(port, path)
            self.assertEqual((answer.status, answer.read()), (404, b""), path)
        self.assertEqual(self.ask(port, f"/{token}/", method="POST").status, 404)
        with open("/proc/net/tcp") as file:
            listening = {words[1] for words in map(str.split, file) if words[3] == "0A"}
        self.assertIn(f"0100007F:{port:04X}", listening)  # 127.0.0.1: this host alone

    def test_the_token_is_in_no_file_and_on_no_command_line(self):
        process, port, token = self.begin("--workers=2", *ENDLESS)
        next(self.events(port, token))
        for pid, line in self.processes():
            self.assertNotIn(token, line)
            with open(f"/proc/{pid}/environ", "rb") as file:
                self.assertNotIn(token.encode(), file.read())
        process.send_signal(signal.SIGINT)
        process.wait()
        files = [path for path in glob.glob(self.path("**"), recursive=True) if os.path.isfile(path)]
        self.assertIn(self.path("run/report.html"), files)
        for path in files:
            with open(path, "rb") as file:
                self.assertNotIn(token.encode(), file.read(), path)

    def test_tells_the_end(self):
        process, port, token = self.begin("--workers=2", *ENDLESS)
        events = self.events(port, token)
        next(events)
        process.send_signal(signal.SIGINT)
        *_, (name, run), (last, _) = events
        self.assertEqual((name, run["status"], last), ("run", "stopped", "end"))
        self.assertEqual(process.wait(), 130)

    def test_tells_a_failure(self):
        process, port, token = self.begin("--workers=2", *ENDLESS)
        events = self.events(port, token)
        next(events)
        os.kill(self.members()["rank 1"], signal.SIGKILL)
        *_, (name, run), (last, _) = events
        self.assertEqual((name, run["status"], last), ("run", "failed", "end"))
        self.assertIn("rank 1", run["failure"])
        self.assertEqual(process.wait(), 1)

    def test_a_viewer_that_does_not_read_holds_nothing_up(self):
        process, port, token = self.begin("--workers=1", *ENDLESS)
        viewer = socket.socket()
        self.addCleanup(viewer.close)
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        viewer.connect(("127.0.0.1", port))
        viewer.send(f"GET /{token}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        half = socket.create_connection(("127.0.0.1", port))  # and one that asks for nothing
        self.addCleanup(half.close)
        self.wait_for_step(Run(self.path("run")), 300, process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=PATIENCE), 130)
        self.assertEqual(Run(self.path("run")).summary["finished"], False)

    def test_a_port_that_is_taken_is_refused(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.assertIn(f"port {port} of 127.0.0.1", self.refused(
                "train", *SMALL, "--epochs=1", f"--live={port}", f"--out={self.path('run')}"))
        self.assertFalse(os.path.exists(self.path("run")))
        for value in "0", "65536", ":80", "nonsense":
            self.assertIn("is not a port", self.refused("train", *SMALL, f"--live={value}"))

    def test_its_own_port_and_address(self):
        port = self.free_port("127.0.0.2")
        out = self.call("train", *SMALL, "--epochs=1", f"--live=127.0.0.2:{port}", "--out=run").stdout
        self.assertIn(f"live page  http://127.0.0.2:{port}/", out)


class Page(Watched, PageCase):
    """What a browser shows."""

    def test_a_live_run_grows_and_ends(self):
        process, port, token = self.begin("--workers=2", *ENDLESS)
        points = "(document.querySelector('.plot path')?.getAttribute('d').match(/[ML]/g) || []).length"
        with Browser() as browser:
            browser.open(f"http://127.0.0.1:{port}/{token}/")
            first = browser.wait_for(points)
            browser.wait_for(f"{points} > {first + 20}")
            browser.wait_for("document.querySelector('.workers')")  # since the first sync point
            text = self.check_text(browser)
            self.assertIn("running, live", text)
            self.assertRegex(text, r"step [\d,]+ of 1,700,000")
            self.check_axes(browser)
            process.send_signal(signal.SIGINT)
            browser.wait_for("document.querySelector('.status.stopped')")
            self.assertIn("asup train --resume", self.check_text(browser))
        self.assertEqual(process.wait(), 130)

    def test_reports(self):
        ways = {"plain": ["--workers=2", "--schedule=cosine"],
                "alone": ["--workers=1"],
                "served": ["--workers=2", "--sync=server"],
                "adaptive": ["--workers=2", "--sync=asup"],
                "local": ["--workers=2", "--sync=diloco", "--every=4"],
                "balanced": ["--workers=2", "--balance"]}
        for name, flags in ways.items():
            self.train(name, "--epochs=3", *flags)
        self.train("diverged", "--epochs=3", "--lr=1000", status=1)
        with Browser() as browser:
            for name in [*ways, "diverged"]:
                browser.open("file://" + self.path(f"{name}/report.html"))
                browser.wait_for(f"document.title == '{name} · asup' && document.querySelector('.plot path')")
                text = self.check_text(browser)
                self.assertIn("asup train --model=mlp", text)
                self.check_axes(browser)
            self.assertIn("the loss became", text)

    def test_fits_narrow_and_wide(self):
        self.train("run", "--epochs=2", "--workers=2")
        with Browser() as browser:
            for width in 400, 800, 1400:
                browser.resize(width, 900)
                browser.open("file://" + self.path("run/report.html"))
                browser.wait_for("document.querySelector('.plot svg')?.clientWidth > 0")
                self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width)

    def test_compares(self):
        self.train("a", "--epochs=2", "--workers=2")
        self.train("b", "--epochs=3", "--workers=2", "--lr=0.01")
        self.train("c", "--epochs=2", "--lr=1000", status=1)
        self.call("report", "a", "b", "c")
        with Browser() as browser:
            browser.open("file://" + self.path("comparison.html"))
            browser.wait_for("document.querySelectorAll('.plot path').length > 4")
            self.check_text(browser)
            self.check_axes(browser)
            rows = browser.evaluate("""[...document.querySelectorAll('.figures tr')].map(
                (row) => [...row.children].map((cell) => cell.textContent.trim()))""")
            self.assertIn(["Setting", "a", "b", "c"], rows)
            self.assertIn(["lr", "0.05", "0.01", "1000.0"], rows)
            self.assertIn(["epochs", "2", "3", "2"], rows)
            self.assertFalse([row for row in rows if row[0] in ("model", "seed", "hosts")], rows)


if __name__ == "__main__":
    unittest.main()
