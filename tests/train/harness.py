"""What the tests that run the built program share. Python's standard library only."""

import glob
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["ASUP_PROGRAM"]
SOAK = "ASUP_SOAK" in os.environ  # `make soak`
PATIENCE = 300  # seconds until a test that hangs says what it waits for, however slow the machine is
# Seconds for a test's processes to end after it. Ranks that a launcher forgot give up by themselves at
# their deadline, after 300 s: whoever waits that long does not notice them.
FAREWELL = 60

# A job that is done in moments: a small network on few small images.
SMALL = [
    "--model=mlp", "--width=16", "--data=synthetic", "--synthetic-samples=400",
    "--synthetic-test-samples=90", "--synthetic-shape=1x8x8", "--batch=24", "--threads=1",
    "--log-every=1", "--seed=7",
]


class Run:
    """A run folder."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    @property
    def summary(self):
        with open(self.path("summary.json")) as file:
            return json.load(file)

    @property
    def rows(self):
        with open(self.path("metrics.jsonl")) as file:
            return [json.loads(line) for line in file]

    @property
    def last_step(self):
        """That it has logged; 0 where there is none."""
        with contextlib.suppress(FileNotFoundError), open(self.path("metrics.jsonl"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))  # of a run of many thousand
            whole = file.read().split(b"\n")[:-1]
            with contextlib.suppress(ValueError):  # half of a row, where a run is taken up again
                return json.loads(whole[-1])["step"] if whole else 0
        return 0

    @property
    def losses(self):
        return [row["loss"] for row in self.rows if "loss" in row]

    @property
    def sha(self):
        return self.summary["weights_sha256"]

    @property
    def checkpoints(self):
        return sorted(glob.glob(self.path("checkpoints/step-*")))

    @property
    def saved(self):
        """The index of the newest checkpoint. One that is read may be deleted just then."""
        while True:
            try:
                with open(os.path.join(self.checkpoints[-1], "index.json")) as file:
                    return json.load(file)["checkpoint"]
            except FileNotFoundError:
                time.sleep(0.01)


class Case(unittest.TestCase):
    """Each test has a folder of its own, and leaves no process and no shared memory."""

    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="asup-test-")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.environment = dict(os.environ, XDG_CACHE_HOME=self.place + "/cache",
                                TMPDIR=self.place)
        self.environment.pop("OMP_NUM_THREADS", None)
        self.addCleanup(self.check_nothing_left)

    def path(self, name):
        return os.path.join(self.place, name)

    def command(self, *flags):
        return [PROGRAM, *flags]

    def call(self, *flags, status=0, **environment):
        """Runs `asup flags` to its end, and checks how it ended."""
        done = subprocess.run(self.command(*flags), env=dict(self.environment, **environment),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE, cwd=self.place)
        self.assertEqual(done.returncode, status, f"{flags}\n{done.stdout}\n{done.stderr}")
        return done

    def train(self, name, *flags, status=0, **environment):
        """Runs `asup train` into a folder of this name."""
        self.call("train", *SMALL, *flags, f"--out={self.path(name)}", status=status,
                  **environment)
        return Run(self.path(name))

    def refused(self, *flags):
        """The last line of a command that is refused as bad input."""
        return self.call(*flags, status=2).stderr.strip().splitlines()[-1]

    def start(self, *flags, **options):
        """Starts `asup flags` and returns the process, which is ended with the test."""
        process = subprocess.Popen(self.command(*flags), env=self.environment, cwd=self.place,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def wait_for(self, condition, process, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertIsNone(process.poll(), f"{what}: the run ended")
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def wait_for_step(self, run, step, process):
        """Returns when the run has logged this step."""
        self.wait_for(lambda: run.last_step >= step, process, f"step {step} did not come")

    def wait_for_file(self, path, process):
        self.wait_for(lambda: os.path.exists(path), process, f"{path} did not come")

    def free_port(self, host="127.0.0.1"):
        """A port that nobody else is given before the test ends: it stays bound. asup can listen on
        it all the same, since both set SO_REUSEADDR and nobody listens yet."""
        held = socket.socket()
        self.addCleanup(held.close)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, 0))
        return held.getsockname()[1]

    def program_on_hosts(self, folder):
        """A script that starts what it is given as on different hosts: rank 0 alone sees what is in the
        folder, which is new, and all other ranks see another file system there."""
        os.mkdir(folder)
        apart = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', folder]
        if subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
            self.skipTest("no file system can be mounted here")
        program = self.path("rank.sh")
        with open(program, "w") as file:
            file.write('#!/bin/sh\n[ "$ASUP_RANK" = 0 ] && exec "$@"\nexec %s "$@"\n'
                       % shlex.join(apart))
        os.chmod(program, 0o755)
        return program

    def processes(self):
        """Processes of this test that still run: all name its folder on their command line."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    line = file.read().replace(b"\0", b" ").decode(errors="replace")
                pid = int(path.split("/")[2])
                with open(f"/proc/{pid}/stat") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
            except (OSError, IndexError):
                continue
            if self.place in line and pid != os.getpid() and state != "Z":
                found.append((pid, line))
        return found

    def members(self):
        """Pids of the test's workers and servers: {"rank 0": …, "server 0": …}."""
        found = {}
        for pid, _ in self.processes():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    text = b"\0" + file.read() + b"\0"
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            server = re.search(rb"\0ASUP_SERVER_RANK=(\d+)\0", text)
            rank = re.search(rb"\0ASUP_RANK=(\d+)\0", text)
            if server:
                name = f"server {int(server[1])}"
            elif rank:
                name = f"rank {int(rank[1])}"
            else:
                continue
            found[name] = pid
        return found

    def check_nothing_left(self):
        deadline = time.monotonic() + FAREWELL
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        left = self.processes()
        for pid, _ in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [], "processes were left behind")
