"""A real browser without a window, over Chromium's debugging pipe. Python's standard library only."""

import base64
import json
import os
import subprocess
import tempfile
import time

PROGRAM = os.environ.get("ASUP_CHROMIUM", "chromium")


class Browser:
    """One page. What its scripts throw is collected in `errors`."""

    def __init__(self, width=1400, height=1000, dark=False):
        self.profile = tempfile.TemporaryDirectory(prefix="asup-browser-", ignore_cleanup_errors=True)
        command_in, self.to = os.pipe()
        self.from_, command_out = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--hide-scrollbars", f"--user-data-dir={self.profile.name}",
                 f"--window-size={width},{height}", "--remote-debugging-pipe", "about:blank"]
        # It reads commands from descriptor 3 and answers on 4.
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$0" "$@" 3<&{command_in} 4>&{command_out}', PROGRAM, *flags],
            pass_fds=(command_in, command_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(command_in)
        os.close(command_out)
        self.rest, self.count, self.session, self.errors = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.resize(width, height)
        if dark:
            self.call("Emulation.setEmulatedMedia",
                      features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.from_)
        self.profile.cleanup()

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(answer["params"]["exceptionDetails"]))
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]

    def receive(self):
        while b"\0" not in self.rest:
            piece = os.read(self.from_, 1 << 16)
            assert piece, "the browser has ended"
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def open(self, address):
        self.call("Page.navigate", url=address)

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, script, seconds=300):
        """The script's value, once it is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if (value := self.evaluate(script)) not in (None, False, 0, ""):  # an element is {}
                return value
            time.sleep(0.05)
        raise AssertionError(f"{script} did not become true; errors: {self.errors}")

    def screenshot(self, path):
        """All of the page."""
        self.resize(self.evaluate("innerWidth"), self.evaluate("document.documentElement.scrollHeight"))
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
