#!/usr/bin/env python3
"""Time to a target of the adaptive pace and of every fixed way, in scenes of many kinds.

A scene is a job (model, data, optimizer), some workers, and what happens to them: speeds of their own,
pauses, halts, a network whose rate is halved, a worker that leaves and comes back. Compute is simulated by
sleeps in forward and backward (asup/bench/injected_slowness.h), so that one machine can be many; the
network's scenes need root. Scenes marked `unseen` are for judging alone: nothing was ever tuned on them.

Each way has the best learning rate of a few for each job: the one that takes it to the target in the fewest steps
with four equal workers, on samples that --validation sets aside, by the mean of --seeds, or the smallest that is within
a tenth of that. Ways that take the same steps there share one. --tune finds them, for --rates; those in bench/scenes_rates.json were found so. Ways take turns within a seed, and are compared seed
by seed; a scene's best fixed way is found by the other seeds. A run ends when it has come to the target; one that does
not come there counts as twice the scene's longest. Runs that --json has already are not run again, so that a
measurement may be interrupted.

    bench/scenes.py --list
    bench/scenes.py --tune --rates rates.json [--seeds 3]
    bench/scenes.py [--rates rates.json] [--scenes NAME,...] [--ways NAME,...] [--seeds 5] [--jobs 1] [--json FILE]
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import hosts

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATES = ROOT / "bench/scenes_rates.json"
PATIENCE = 240  # seconds of a run
TEXT_BYTES = 1_000_000
ADAPTIVE = "asup"
WAYS = {"allreduce": "--sync allreduce", "balance": "--sync allreduce --balance",
        "bsp": "--sync server --pace bsp", "ssp": "--sync server --pace ssp --staleness 4",
        "asp": "--sync server --pace asp", "local": "--sync local --every 8", ADAPTIVE: "--sync asup"}
SYNCHRONOUS = "allreduce", "balance", "bsp", ADAPTIVE  # the same steps where workers are equal: they share a rate
FACTORS = 0.25, 0.5, 1, 2  # of a job's learning rate, to be tuned


@dataclasses.dataclass
class Job:
    flags: str
    lr: float
    target: float  # of the test accuracy, or of the test loss of text, which falls
    steps: int
    sample_ms: float

    @property
    def falls(self):
        return "text:" in self.flags


GPT = "--model gpt --data text:TEXT --depth 2 --width 64 --heads 2 --context 64 --optimizer adamw --batch 32"
LSTM = "--model lstm --data text:TEXT --depth 1 --width 128 --context 64 --optimizer adam --batch 32"
JOBS = {
    "mlp": Job("--model mlp --data fashion-mnist --momentum 0 --batch 128", 0.2, 0.82, 240, 2),
    "mlp-adam": Job("--model mlp --data fashion-mnist --optimizer adam --batch 128", 0.001, 0.83, 240, 2),
    "cnn": Job("--model cnn --data fashion-mnist --momentum 0.9 --batch 128", 0.03, 0.80, 200, 2),
    "cnn-adam": Job("--model cnn --data fashion-mnist --optimizer adam --batch 128", 0.001, 0.80, 200, 2),
    "lstm": Job(LSTM, 0.003, 2.6, 120, 5),
    "gpt": Job(GPT, 0.003, 2.7, 120, 5),
}


@dataclasses.dataclass
class Scene:
    name: str
    job: str
    workers: int
    slowness: str = ""  # of ASUP_INJECTED_SLOWNESS
    unseen: bool = False
    mbit: int = 0               # of each host's link, above 0: workers have hosts of their own
    halves_at: float = 0        # share of the run after which links have half of that
    leaves: tuple = ()          # worker, and the shares of the run at which it is lost and one comes


def speeds(*factors):
    return " ".join(f"slow={rank}:{factor}" for rank, factor in enumerate(factors) if factor != 1)


SCENES = [
    Scene("equal", "cnn", 4),
    Scene("one-slow", "cnn", 4, speeds(1, 1, 1, 4)),
    Scene("pauses", "cnn", 4, "pause=3:40:20"),
    Scene("slow-for-a-while", "mlp", 4, "slow=3:4:0.33:0.67"),
    Scene("1248", "mlp", 8, speeds(1, 1, 2, 2, 4, 4, 8, 8)),
    Scene("network", "cnn", 4, mbit=1000),
    Scene("equal-mlp-16", "mlp", 16, "", True),
    Scene("1248-adam", "cnn-adam", 4, speeds(1, 2, 4, 8), True),
    Scene("lstm-two", "lstm", 2, speeds(1, 3), True),
    Scene("gpt-slows-down", "gpt", 4, "slow=2:3:0.5:1", True),
    Scene("halted-8", "cnn", 8, "halt=7:300:100:0.25:0.75", True),
    Scene("three-pause-of-16", "mlp", 16, "pause=1:30:15 pause=6:30:15 pause=11:30:15", True),
    Scene("comes-and-goes", "mlp-adam", 6, speeds(1, 1, 1, 1, 1, 2), True, leaves=(4, 0.3, 0.6)),
    Scene("network-halves", "mlp", 4, mbit=400, halves_at=0.4),
]


def of_run(folder):
    """Rows of metrics.jsonl, as far as they are written."""
    try:
        lines = (folder / "metrics.jsonl").read_text().splitlines()
    except OSError:
        return []
    rows = []
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows


def curve(rows, measure):
    """(seconds of training, mark) of each test, tests not counted."""
    points, testing = [], 0
    for row in rows:
        testing += row.get("eval_s", 0)
        if measure in row:
            points.append((row["seconds"] - testing, row[measure]))
    return points


def steps_of(rows, measure):
    return [(row["step"], row[measure]) for row in rows if measure in row]


def reached(points, target, falls):
    """The seconds, or steps. Between two tests marks are taken to change evenly; nothing where the target is not reached."""
    before = None
    for when, mark in points:
        if mark <= target if falls else mark >= target:
            if before is None:
                return when
            share = (target - before[1]) / (mark - before[1])
            return before[0] + share * (when - before[0])
        before = when, mark
    return None


def worker_pids(folder, rank):
    """Processes of the run in this folder that have this rank."""
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit() or str(folder).encode() not in (entry / "cmdline").read_bytes():
                continue
            variables = (entry / "environ").read_bytes().split(b"\0")
            if f"ASUP_RANK={rank}".encode() in variables and b"ASUP_ROLE=worker" in variables:
                yield int(entry.name)


class Run:
    def __init__(self, options, scene, way, seed, lr, for_tuning=False):
        self.options, self.scene, self.job = options, scene, JOBS[scene.job]
        # The end of a text is for tests: what stands before it is a text with an end of its own.
        text = options.text_before_tests if for_tuning else options.text
        extra = ["--validation=0.1"] if for_tuning and not self.job.falls else []
        self.measure = ("test_loss" if self.job.falls else
                        "validation_accuracy" if for_tuning else "test_accuracy")
        self.program = str((options.build / "asup").resolve())
        self.folder = options.folder / f"{scene.name}-{way}-{seed}-{lr:g}"
        shutil.rmtree(self.folder, ignore_errors=True)
        every = max(1, self.job.steps // 12)
        self.flags = [*shlex.split(self.job.flags.replace("TEXT", str(text))), *shlex.split(WAYS[way]), f"--lr={lr}", f"--seed={seed}",
                      f"--steps={self.job.steps}", f"--eval-every={every}", "--threads=1", "--device=cpu", "--log-every=10",
                      "--progress=none", "--no-tensorboard", f"--out={self.folder}", *extra]
        if scene.leaves:
            self.flags += ["--on-loss=continue", f"--checkpoint-every={every}"]
        else:
            self.flags += ["--checkpoint-every=never"]
        self.variable = f"ASUP_INJECTED_SLOWNESS=sample_ms={self.job.sample_ms} {scene.slowness}".rstrip()
        self.has_servers = "--sync server" in WAYS[way] or way == ADAPTIVE
        self.joined = None
        self.began = None  # by the clock of this process,
        self.seen = {}     # and seconds since then until each test was seen, tests not counted, by step

    def command(self, network):
        if network is None:
            return ["env", self.variable, self.program, "train", f"--workers={self.scene.workers}", *self.flags]
        addresses = ",".join(network.address(host) for host in range(self.scene.workers))
        servers = [f"--servers={self.scene.workers}"] if self.has_servers else []
        inner = [self.program, "run", "--ssh", str(network.agent), "--hosts", addresses, "--interface",
                 f"{hosts.NETWORK}.0/24", *servers, "--env", self.variable, "--", self.program, "train", *self.flags]
        return [str(network.agent), network.address(0), shlex.join(inner)]

    def progress(self):
        return max((row.get("step", 0) for row in of_run(self.folder)), default=0) / self.job.steps

    def watch(self, process, network):
        """Does to the run what is to happen to it, and waits for its end."""
        due = []
        if self.scene.halves_at:
            due.append((self.scene.halves_at, lambda: halve(network, self.scene.mbit)))
        if self.scene.leaves:
            rank, lost, comes = self.scene.leaves
            due += [(lost, lambda: [os.kill(pid, 9) for pid in worker_pids(self.folder, rank)]),
                    (comes, self.join)]
        until = time.monotonic() + PATIENCE
        while process.poll() is None:
            if time.monotonic() > until:
                process.kill()
                raise RuntimeError(f"{self.folder.name} took more than {PATIENCE} s")
            if self.scene.leaves:
                self.look()
            if self.time_to_target() is not None:
                process.terminate()
                process.wait()
            while due and self.progress() >= due[0][0]:
                due.pop(0)[1]()
            time.sleep(0.05)
        if self.scene.leaves:
            self.look()

    def look(self):
        """Where a run goes back to a checkpoint, its own clock does too."""
        testing, now = 0, time.monotonic()
        for row in of_run(self.folder):
            self.began = self.began or now - row["seconds"]
            testing += row.get("eval_s", 0)
            if self.measure in row:
                self.seen.setdefault(row["step"], now - self.began - testing)

    def join(self):
        self.joined = subprocess.Popen(["env", self.variable, self.program, "run", "--join", str(self.folder), "-n", "1",
                                        "--", self.program, "train"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)

    def end_joined(self):
        if self.joined:
            self.joined.terminate()
            self.joined.wait()

    def points(self):
        rows = of_run(self.folder)
        if not self.scene.leaves:
            return curve(rows, self.measure)
        return [(self.seen[step], mark) for step, mark in steps_of(rows, self.measure) if step in self.seen]

    def time_to_target(self):
        return reached(self.points(), self.job.target, self.job.falls)

    def steps_to_target(self):
        return reached(steps_of(of_run(self.folder), self.measure), self.job.target, self.job.falls)

    def __call__(self):
        """(seconds to the target or None, seconds in all, last mark)"""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{self.folder}.log", "w+") as log, contextlib.ExitStack() as stack:
            network = (stack.enter_context(hosts.Network(self.scene.workers, self.scene.mbit * 1e6))
                       if self.scene.mbit else None)
            process = subprocess.Popen(self.command(network), stdout=log, stderr=log)
            stack.callback(self.end_joined)
            self.watch(process, network)
            said = pathlib.Path(log.name).read_text()
            seconds = self.time_to_target()
            if process.returncode != 0 and seconds is None and "diverged" not in said:
                raise RuntimeError(f"{self.folder.name} failed: {said.strip().splitlines()[-1:]}; see {log.name}")
        points = self.points()
        return (seconds, *points[-1]) if points else (None, 0, math.nan)


def halve(network, mbit):
    """Both directions of every link."""
    for host in range(network.hosts):
        for where, device in ((network.namespace("switch"), f"port{host}"), (network.namespace(host), "eth0")):
            subprocess.run(["tc", "-n", where, "qdisc", "change", "dev", device, "root", "tbf", "rate",
                            str(int(mbit * 5e5)), "burst", network.burst, "limit", network.limit], check=True)


def chosen_rate(steps_by_rate):
    """The smallest of those that are nearly as good as the best: the largest are near to where training breaks."""
    means = {lr: statistics.fmean(steps) for lr, steps in steps_by_rate.items()}
    return min(lr for lr, mean in means.items() if mean <= 1.1 * min(means.values()))


def tune(options, rates):
    """Each job's and way's learning rate, by the steps to the target on samples set aside; one that is not reached counts
    as twice the run's steps."""
    wanted = sorted({scene.job for scene in options.scenes})
    groups = [SYNCHRONOUS, *((way,) for way in WAYS if way not in SYNCHRONOUS)]
    tasks = [(name, group, seed, JOBS[name].lr * factor) for name in wanted for group in groups
             if set(group) & set(options.ways) - rates.get(name, {}).keys()
             for factor in FACTORS for seed in range(1001, 1001 + options.seeds)]
    tried = {}
    written = threading.Lock()

    def one(task):
        name, group, seed, lr = task
        run = Run(options, Scene(f"tuning-{name}", name, 4), group[0], seed, lr, for_tuning=True)
        _, _, mark = run()
        steps = run.steps_to_target()
        print(f"{name} by {group[0]}, lr {lr:g}, seed {seed}: "
              f"{'not reached' if steps is None else f'{steps:.0f} steps'}, {mark:.4f}", flush=True)
        with written:
            of_lr = tried.setdefault((name, group), {})
            of_lr.setdefault(lr, []).append(steps or 2 * JOBS[name].steps)
            if sum(map(len, of_lr.values())) < len(FACTORS) * options.seeds:
                return
            rates.setdefault(name, {}).update({way: chosen_rate(of_lr) for way in group})
            options.rates.write_text(json.dumps(rates, indent=1) + "\n")

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, tasks))


def earlier_runs(options):
    if not options.json or not options.json.exists():
        return {}
    try:
        rows = json.loads(options.json.read_text())["runs"]
        return {(row.pop("scene"), row.pop("way"), row.pop("seed")): row for row in rows}
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        sys.exit(f"bench/scenes.py: --json {options.json}: holds no earlier measurement ({error!r}); move it away")


def write(options, results, more):
    if options.json:
        rows = [{"scene": scene, "way": way, "seed": seed, **result} for (scene, way, seed), result in results.items()]
        options.json.write_text(json.dumps({**more, "runs": rows}, indent=1) + "\n")


def measure(options, rates):
    results = earlier_runs(options)
    tasks = [(scene, way, seed, rates.get(scene.job, {}).get(way, JOBS[scene.job].lr))
             for seed in range(1, options.seeds + 1) for scene in options.scenes
             for way in random.Random(seed).sample(options.ways, len(options.ways))]
    tasks = [(scene, way, seed, lr) for scene, way, seed, lr in tasks
             if results.get((scene.name, way, seed), {}).get("lr") != lr]
    written = threading.Lock()

    def one(task):
        scene, way, seed, lr = task
        seconds, whole, mark = Run(options, scene, way, seed, lr)()
        with written:
            results[scene.name, way, seed] = {"seconds": seconds, "whole": whole, "mark": mark, "lr": lr}
            write(options, results, {})
        print(f"seed {seed}: {scene.name} {way}: "
              f"{'not reached' if seconds is None else f'{seconds:.1f} s'} of {whole:.1f} s, {mark:.4f}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, [task for task in tasks if not task[0].mbit]))
    for task in tasks:  # one network at a time, and by the thread that gets signals
        if task[0].mbit:
            one(task)
    return results


def logarithms(results):
    """Of the seconds to the target, by scene, way and seed."""
    longest = {}
    for (name, *_), result in results.items():
        longest[name] = max(longest.get(name, 0), result["whole"])
    return {run: math.log(result["seconds"] or 2 * longest[run[0]]) for run, result in results.items()}


def mean_log(logs, scene, way, seeds):
    return statistics.fmean(logs[scene.name, way, seed] for seed in seeds)


def beside_best_way(logs, scene, fixed, seeds):
    """By the logarithm. Which way is the best is told by the other seeds: the best of several by the same figures
    that it is then judged by would look better than it is, by as much as they vary."""
    def of_seed(seed):
        others = [other for other in seeds if other != seed] or [seed]
        best = min(fixed, key=lambda way: mean_log(logs, scene, way, others))
        return mean_log(logs, scene, ADAPTIVE, [seed]) - mean_log(logs, scene, best, [seed])
    return statistics.fmean(of_seed(seed) for seed in seeds)


def ratios(logs, scenes, ways, seeds):
    """Of the adaptive pace to the best fixed way of each scene, and to each fixed way over all of them."""
    fixed = [way for way in ways if way != ADAPTIVE]
    best = {scene.name: min(fixed, key=lambda way: mean_log(logs, scene, way, seeds)) for scene in scenes}
    beside_best = {scene.name: math.exp(beside_best_way(logs, scene, fixed, seeds)) for scene in scenes}
    beside_each = {way: geometric_mean(math.exp(mean_log(logs, scene, ADAPTIVE, seeds) -
                                                mean_log(logs, scene, way, seeds)) for scene in scenes)
                   for way in fixed}
    return best, beside_best, beside_each


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def tell(options, results):
    seeds, logs = list(range(1, options.seeds + 1)), logarithms(results)
    best, beside_best, beside_each = ratios(logs, options.scenes, options.ways, seeds)
    print(f"\n{'scene':<20} {'best fixed way':<15} {'its s':>8} {'asup s':>8} {'ratio':>6}")
    for scene in options.scenes:
        name = scene.name
        print(f"{name:<20} {best[name]:<15} {math.exp(mean_log(logs, scene, best[name], seeds)):8.1f} "
              f"{math.exp(mean_log(logs, scene, ADAPTIVE, seeds)):8.1f} {beside_best[name]:6.2f}"
              f"{'  unseen' if scene.unseen else ''}")
    draw = random.Random(1)
    resampled = sorted(geometric_mean(ratios(logs, options.scenes, options.ways,
                                             draw.choices(seeds, k=len(seeds)))[1].values()) for _ in range(1000))
    overall = geometric_mean(beside_best.values())
    print(f"\nbeside the best fixed way of each scene: {overall:.3f}, "
          f"95 % interval {resampled[25]:.3f} to {resampled[974]:.3f} over seeds; worst {max(beside_best.values()):.2f}")
    for way, ratio in sorted(beside_each.items(), key=lambda item: item[1]):
        print(f"beside {way} in all scenes: {ratio:.3f}")
    write(options, results, {"ratios": beside_best, "best": best, "overall": overall,
                             "interval": [resampled[25], resampled[974]], "beside": beside_each})


def make_texts(options):
    """The beginning of a text that a Debian package brings (docs/text.md), and all of that but the tenth that is for
    tests, which would take longer than training if it were whole."""
    options.text, options.text_before_tests = (options.folder / name for name in ("text.txt", "before_tests.txt"))
    if not any(JOBS[scene.job].falls for scene in options.scenes):
        return
    if options.given_text:
        try:
            whole = options.given_text.read_bytes()
        except OSError as error:
            sys.exit(f"bench/scenes.py: --text: {error}")
    elif shutil.which("bible"):
        whole = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True).stdout
    else:
        sys.exit("bench/scenes.py: apt-get install bible-kjv, or name a text with --text, or leave out the scenes of text")
    options.folder.mkdir(parents=True, exist_ok=True)
    whole = whole[:TEXT_BYTES]
    options.text.write_bytes(whole)
    options.text_before_tests.write_bytes(whole[:len(whole) * 9 // 10])


def chosen(text, known, flag):
    names = text.split(",") if text else list(known)
    for name in names:
        if name not in known:
            sys.exit(f"bench/scenes.py: {flag} {name}: there is {', '.join(known)}")
    return [known[name] for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the scenes, and nothing else")
    parser.add_argument("--tune", action="store_true", help="find learning rates that --rates does not have")
    parser.add_argument("--rates", type=pathlib.Path, default=RATES,
                        help=f"file of learning rates by job and way (default: {RATES.relative_to(ROOT)})")
    parser.add_argument("--scenes", default="", help="some of them (default: all)")
    parser.add_argument("--ways", default="", help="some of them (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each way in each scene (default: 5)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once; each has workers that mostly sleep (default: 1)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--text", type=pathlib.Path, dest="given_text", help="instead of the one that bible-kjv brings")
    parser.add_argument("--folder", type=pathlib.Path, help="of the runs (default: a temporary one)")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file too")
    options = parser.parse_args()
    if options.list:
        for scene in SCENES:
            print(f"{scene.name:<20} {scene.job:<9} {scene.workers:>2} workers  "
                  f"{'unseen  ' if scene.unseen else ''}{scene.slowness}")
        return
    if options.seeds < 1 or options.jobs < 1:
        sys.exit("bench/scenes.py: --seeds and --jobs: 1 is the least")
    if not os.access(options.build / "asup", os.X_OK):
        sys.exit(f"bench/scenes.py: {options.build / 'asup'} is not there: run `make build`, or name a folder with --build")
    options.scenes = chosen(options.scenes, {scene.name: scene for scene in SCENES}, "--scenes")
    options.ways = chosen(options.ways, {way: way for way in WAYS}, "--ways")
    if any(scene.mbit for scene in options.scenes) and (os.geteuid() != 0 or not shutil.which("tc")):
        sys.exit("bench/scenes.py: scenes with a network need root, and iproute2; or name others with --scenes")
    rates = {}
    if options.rates.exists():
        try:
            rates = json.loads(options.rates.read_text())
        except json.JSONDecodeError as error:
            sys.exit(f"bench/scenes.py: --rates {options.rates}: holds no learning rates ({error})")
    elif not options.tune:
        sys.exit(f"bench/scenes.py: {options.rates} is not there: --tune makes it")
    with contextlib.ExitStack() as stack:
        options.folder = options.folder or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options.folder = options.folder.resolve()
        make_texts(options)
        if options.tune:
            return tune(options, rates)
        if ADAPTIVE not in options.ways or len(options.ways) < 2:
            sys.exit(f"bench/scenes.py: --ways: {ADAPTIVE}, and at least one fixed way to compare it with")
        tell(options, measure(options, rates))


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"bench/scenes.py: {error}")
