#!/usr/bin/env python3
"""What a way of training costs in accuracy: runs of `asup train`, paired by seed, with the 95 % interval.

The first --way is what the others are held against. A way is a name and flags of asup train; FLAGS are for all of
them. Runs that --json has already are not run again, so that a measurement may be interrupted, or get more seeds.
With --slowness workers are as slow as it says, by sleeps (asup/bench/injected_slowness.h).

    bench/accuracy.py --way none= --way 'int8=--compress int8' [--seeds 5] [--jobs 1] [--slowness WORDS]
                      [--build build/release] [--json FILE] -- --model cnn --workers 4 --epochs 5
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMON = ("--threads=1", "--progress=none", "--no-tensorboard", "--checkpoint-every=never", "--log-every=100")
# Student's t, two-sided 95 %, by degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


def interval(values):
    """Half of the 95 % interval of their mean; nothing where one value is all there is."""
    if len(values) < 2:
        return math.nan
    student = STUDENT[min(len(values) - 1, len(STUDENT)) - 1]
    return student * statistics.stdev(values) / math.sqrt(len(values))


def way(text):
    name, equals, flags = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: a name and flags, as 'int8=--compress int8'")
    return name, shlex.split(flags)


def run(options, name, flags, seed, folder):
    out = folder / f"{name}-{seed}"
    environment = dict(os.environ)
    if options.slowness:
        environment["ASUP_INJECTED_SLOWNESS"] = options.slowness
    done = subprocess.run([options.build / "asup", "train", *COMMON, *options.flags, *flags, f"--seed={seed}",
                           f"--out={out}"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0 and "has diverged" not in done.stderr:
        raise RuntimeError(f"{name}, seed {seed}: {done.stderr.strip()}")
    if done.returncode != 0:
        return {"diverged": True}
    said = json.loads((out / "summary.json").read_text())
    marks = "test_accuracy", "test_loss", "seconds", "train_seconds", "samples", "step", "bytes_sent"
    return {mark: said[mark] for mark in marks if mark in said}


def tell(options, results):
    """The accuracy, or of text the loss, of each way, and how far it is from the first."""
    first = options.way[0][0]
    mark = "test_accuracy" if any("test_accuracy" in row for row in results.values()) else "test_loss"
    scale = 100 if mark == "test_accuracy" else 1
    print(f"\n{'way':<16} {'runs':>4} {mark:>14} {'minus ' + first:>18} {'bytes':>8} {'seconds':>8}")
    for name, _ in options.way:
        rows = {seed: results[name, seed] for seed in range(1, options.seeds + 1) if (name, seed) in results}
        marks = {seed: row[mark] * scale for seed, row in rows.items() if mark in row}
        if not marks:
            print(f"{name:<16} {len(rows):>4} {'diverged':>14}")
            continue
        pairs = [marks[seed] - results[first, seed][mark] * scale for seed in marks
                 if mark in results.get((first, seed), {})]
        points = f"{statistics.mean(pairs):+.2f} ± {interval(pairs):.2f}" if name != first and pairs else ""
        fewer = [results[first, seed]["bytes_sent"] / rows[seed]["bytes_sent"] for seed in marks
                 if rows[seed].get("bytes_sent") and results.get((first, seed), {}).get("bytes_sent")]
        bytes_ = f"÷ {statistics.median(fewer):.1f}" if name != first and fewer else ""
        seconds = statistics.median(rows[seed]["train_seconds"] for seed in marks)
        lost = f", {len(rows) - len(marks)} diverged" if len(rows) > len(marks) else ""
        print(f"{name:<16} {len(marks):>4} {statistics.mean(marks.values()):>14.2f} {points:>18} {bytes_:>8} {seconds:>8.1f}"
              f"{lost}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", type=way, action="append", required=True, metavar="NAME=FLAGS")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--slowness", metavar="WORDS")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("flags", nargs="*", metavar="FLAGS", help="of asup train, after --")
    options = parser.parse_args()
    if options.seeds < 1 or options.jobs < 1:
        sys.exit("bench/accuracy.py: --seeds and --jobs: 1 is the least")
    if len({name for name, _ in options.way}) < len(options.way):
        sys.exit("bench/accuracy.py: --way: each wants a name of its own")
    job = {"flags": options.flags, "slowness": options.slowness or "", "ways": dict(options.way)}
    results, lock = {}, threading.Lock()
    if options.json and options.json.exists():
        before = json.loads(options.json.read_text())
        if before["job"]["flags"] != job["flags"] or before["job"]["slowness"] != job["slowness"]:
            sys.exit(f"bench/accuracy.py: {options.json} is of another job; name another file")
        changed = {name for name, flags in before["job"]["ways"].items() if job["ways"].get(name, flags) != flags}
        job["ways"] = before["job"]["ways"] | job["ways"]
        for row in before["runs"]:  # those of ways that are not named now stay too
            if row["way"] not in changed:
                results[row["way"], row["seed"]] = row

    def one(task, folder):
        (name, flags), seed = task
        row = {"way": name, "seed": seed, **run(options, name, flags, seed, folder)}
        with lock:
            results[name, seed] = row
            print(f"seed {seed}: {name}: {row.get('test_accuracy', row.get('test_loss', 'diverged'))}", file=sys.stderr, flush=True)
            if options.json:
                written = options.json.with_suffix(".part")
                written.write_text(json.dumps({"job": job, "runs": list(results.values())}, indent=1))
                written.replace(options.json)

    # Ways by turns, so that a slow moment of the machine hits all, and a measurement that is broken off has pairs.
    tasks = [(each, seed) for seed in range(1, options.seeds + 1) for each in options.way if (each[0], seed) not in results]
    with tempfile.TemporaryDirectory(prefix="asup-accuracy-") as name:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            try:
                list(pool.map(lambda task: one(task, pathlib.Path(name)), tasks))
            except RuntimeError as error:
                pool.shutdown(cancel_futures=True)
                sys.exit(f"bench/accuracy.py: {error}")
    tell(options, results)


if __name__ == "__main__":
    main()
