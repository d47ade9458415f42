"""What bench/collective.py and bench/hosts.py share: sizes, peers, their turns, the machine's steal."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
GRACE = 5  # seconds from SIGTERM to SIGKILL


def sizes(text):
    """'1K,25M' as bytes, for argparse."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    try:
        numbers = [int(word.rstrip("KMG")) * units.get(word[-1], 1) // 4 * 4 for word in text.split(",")]
        if min(numbers) < 4:
            raise ValueError
        return numbers
    except (ValueError, IndexError):
        raise argparse.ArgumentTypeError(f"'{text}' are no sizes; write bytes as 512, 4K or 25M, separated by commas")


def human(size):
    """The shortest exact form, which asup reads as well."""
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def peers_in(build):
    """Open MPI's and Gloo's programs, by name; says what to install where they were not built."""
    programs = {}
    for name, runner, package in (("mpi_allreduce", "mpirun", "libopenmpi-dev openmpi-bin"),
                                  ("gloo_allreduce", None, "libgloo-dev")):
        program = build / "bench" / name
        if program.exists() and (runner is None or shutil.which(runner)):
            programs[name] = str(program)
        else:
            print(f"without {name.split('_')[0]}: apt-get install {package}, and build again", file=sys.stderr)
    return programs


def set_signals():
    """SIGTERM and SIGHUP end a script as Ctrl-C does: with what it started ended, and taken down."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


class TurnFailed(Exception):
    """A peer crashed, hung or said something else than figures."""


def end(processes):
    """Ends processes and what they started in their sessions."""
    def send(process, number):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass

    running = [p for p in processes if p.poll() is None]
    for process in running:
        send(process, signal.SIGTERM)
    give_up = time.monotonic() + GRACE
    for process in running:
        try:
            process.wait(max(0, give_up - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
    for process in processes:
        send(process, signal.SIGKILL)
        process.wait()


def run_together(commands, deadline, environments=None):
    """Runs commands at once to their end; gives what the first of them wrote. Raises TurnFailed when one
    fails, or when they take longer than `deadline` seconds; none is left running."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        processes = []
        try:
            for i, command in enumerate(commands):
                processes.append(subprocess.Popen(
                    command, env=environments[i] if environments else None, stdin=subprocess.DEVNULL,
                    stdout=output if i == 0 else subprocess.DEVNULL, stderr=errors, start_new_session=True))
            give_up = time.monotonic() + deadline
            while any(p.poll() is None for p in processes):
                if time.monotonic() > give_up:
                    raise TurnFailed(f"no end after {deadline} s")
                if any(p.poll() for p in processes):
                    break
                time.sleep(0.02)
        finally:
            end(processes)
        if any(p.returncode for p in processes):
            errors.seek(0)
            said = [line for line in errors.read().split("\n") if line.strip(" -")]
            statuses = [p.returncode for p in processes]
            raise TurnFailed(f"status {statuses if len(statuses) > 1 else statuses[0]}: " + " / ".join(said[-3:]))
        output.seek(0)
        return output.read()


def rows_of_lines(text):
    """The rows of a program that keeps to turn.h."""
    try:
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    except json.JSONDecodeError as error:
        raise TurnFailed(f"unreadable: {error}")


class Steal:
    """The share of the processors' time that the hypervisor gave to others, while it is entered."""

    def __init__(self):
        self.stolen = self.total = 0

    @staticmethod
    def _ticks():
        with open("/proc/stat") as stat:
            ticks = [int(word) for word in stat.readline().split()[1:9]]
        return ticks[7], sum(ticks)

    def __enter__(self):
        self._begin = self._ticks()

    def __exit__(self, *_):
        stolen, total = self._ticks()
        self.stolen += stolen - self._begin[0]
        self.total += total - self._begin[1]

    @property
    def share(self):
        return self.stolen / self.total if self.total else 0.0


class Peer:
    """One of those that take turns. `turn` runs it once and gives rows with bytes, buffers, p50_us, min_us."""

    def __init__(self, name, turn):
        self.name = name
        self.turn = turn
        self.steal = Steal()
        self.failure = None
        self.rounds = {}  # (bytes, buffers) -> its rows

    def take_turn(self):
        if self.failure:
            return
        try:
            with self.steal:
                rows = self.turn()
        except TurnFailed as failure:
            self.failure = str(failure)
            print(f"{self.name} failed and is left out from here on: {failure}", file=sys.stderr)
            return
        for row in rows:
            self.rounds.setdefault((row["bytes"], row["buffers"]), []).append(row)

    def p50(self, size, buffers):
        """Median over the rounds' medians; None where it took no turn."""
        rows = self.rounds.get((size, buffers))
        return statistics.median(r["p50_us"] for r in rows) if rows else None

    def minimum(self, size, buffers):
        return min(r["min_us"] for r in self.rounds[size, buffers])


def take_turns(peers, rounds):
    """Every round begins with another peer, so that none is always after the same one."""
    for i in range(rounds):
        for k in range(len(peers)):
            peers[(i + k) % len(peers)].take_turn()
            if sys.stderr.isatty():
                print(f"\rround {i + 1} of {rounds}, {k + 1} of {len(peers)} peers ", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)


class Gloo:
    """A turn of Gloo: at its first, each algorithm has a try at each size; later ones take the fastest.
    `place` gives a rank's own address and the words before its command."""

    ALGORITHMS = ("ring_collective", "bcube_collective", "ring", "ring_chunked", "halving_doubling", "bcube")
    DEADLINE_OF_TRY = 30

    def __init__(self, program, ranks, sizes, seconds, deadline, place=lambda rank: ("127.0.0.1", [])):
        self.program, self.ranks, self.sizes = program, ranks, sizes
        self.seconds, self.deadline, self.place = seconds, deadline, place
        self.best = {}

    def __call__(self):
        return [self._run(self._best(size), size, self.seconds, self.deadline) for size in self.sizes]

    def _best(self, size):
        if size not in self.best:
            self.best[size] = min(self.ALGORITHMS, key=lambda algorithm: self._try(algorithm, size))
        return self.best[size]

    def _try(self, algorithm, size):
        try:
            return self._run(algorithm, size, self.seconds / 10, self.DEADLINE_OF_TRY)["p50_us"]
        except TurnFailed:  # some hang or refuse some numbers of ranks
            return float("inf")

    def _run(self, algorithm, size, seconds, deadline):
        with tempfile.TemporaryDirectory() as folder:
            commands = []
            for rank in range(self.ranks):
                address, prefix = self.place(rank)
                commands.append([*prefix, self.program, algorithm, str(rank), str(self.ranks), address, folder,
                                 str(seconds), str(size)])
            return rows_of_lines(run_together(commands, deadline))[0]


class OpenMpi:
    """A turn of Open MPI: at its first, each algorithm has a try at each size; later ones take the fastest.
    `words` are mpirun's, with how many ranks there are; `place` puts the command where it is to run."""

    # None: Open MPI's own choice.
    ALGORITHMS = (None, "basic_linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring", "rabenseifner")
    DEADLINE_OF_TRY = 60
    SEGMENT = 1 << 20  # bytes, of segmented_ring, which has none by itself

    def __init__(self, words, program, sizes, seconds, deadline, place=lambda command: command):
        self.words, self.program, self.sizes = words, program, sizes
        self.seconds, self.deadline, self.place = seconds, deadline, place
        self.best = {}  # by size

    def __call__(self):
        if not self.best:
            self._search()
        rows = []
        for algorithm in sorted(set(self.best.values()), key=str):
            sizes = [size for size in self.sizes if self.best[size] == algorithm]
            rows += self._run(algorithm, sizes, self.seconds, self.deadline)
        return rows

    def _search(self):
        times = {size: {} for size in self.sizes}
        for algorithm in self.ALGORITHMS:
            try:
                for row in self._run(algorithm, self.sizes, self.seconds / 4, self.DEADLINE_OF_TRY):
                    times[row["bytes"]][algorithm] = row["p50_us"]
            except TurnFailed as failure:
                if algorithm is None:  # it does not run at all
                    raise failure
        self.best = {size: min(tried, key=tried.get) for size, tried in times.items()}

    def _run(self, algorithm, sizes, seconds, deadline):
        chosen = []
        if algorithm:
            chosen = ["--mca", "coll_tuned_use_dynamic_rules", "1",
                      "--mca", "coll_tuned_allreduce_algorithm", algorithm]
        if algorithm == "segmented_ring":
            chosen += ["--mca", "coll_tuned_allreduce_algorithm_segmentsize", str(self.SEGMENT)]
        command = ["mpirun", *self.words, *chosen, self.program, str(seconds), *map(str, sizes)]
        return rows_of_lines(run_together([self.place(command)], deadline))


def print_goals(goals):
    """Goals are (name, least value, [(value, ranks, bytes)])."""
    print("\ngoals")
    for name, least, reached in goals:
        if not reached:
            print(f"  ?      {name}: not measured")
            continue
        missed = [item for item in reached if item[0] < least]
        worst, ranks, size = min(reached)
        print(f"  {'missed' if missed else 'met':6} {name}: worst {worst:.3f} ({human(size)}, {ranks} ranks)" +
              (f"; missed at {len(missed)} of {len(reached)}" if missed else ""))
