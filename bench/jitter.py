#!/usr/bin/env python3
"""When it helps to put exchanges off at random (`asup train --jitter-ms`): jobs that share slow links.

The hosts are those of hosts.py. Several jobs begin at once, each with a worker on every host. Steps take as long in one
as in the other, so that exchanges that collide once may do so for ever: sharing the links, both end late by as much.
Put off at random, each on its own, they would part. One job alone, for which putting off can only cost time, is
measured beside them. Settings take turns; `least` and `most` are over the rounds. Needs root.

    bench/jitter.py [--rate 100mbit] [--jobs 1,2] [--jitter 0,50,100,200] [--steps 400] [--json FILE] [--quick]
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import sys
import tempfile

import hosts as net
import turns

WAYS = {"local": "--sync local --every 8 --merge-state keep", "gossip": "--sync gossip --every 8"}


def numbers(kind):
    """'1,2' as a list, for argparse."""
    def read(text):
        try:
            values = [kind(word) for word in text.split(",")]
            if min(values) < 0:
                raise ValueError
            return values
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}': write numbers as 0,50,100")
    return read


def turn(network, program, way, jobs, jitter, arguments):
    """Steps a second of a job, on average over the jobs."""
    addresses = ",".join(network.address(host) for host in range(arguments.workers))
    with tempfile.TemporaryDirectory() as folder:
        def command(job):
            words = [program, "run", "--ssh", str(network.agent), "--hosts", addresses, "--interface", f"{net.NETWORK}.0/24",
                     "--env", f"ASUP_INJECTED_SLOWNESS=sample_ms={arguments.sample_ms}", "--", program, "train",
                     *WAYS[way].split(), "--jitter-ms", str(jitter), "--steps", str(arguments.steps), "--batch",
                     str(8 * arguments.workers), "--lr", "0.01", "--threads", "1", "--eval-every", "never",
                     "--checkpoint-every", "never", "--out", f"{folder}/{job}"]
            return [str(network.agent), network.address(0), shlex.join(words)]

        turns.run_together([command(job) for job in range(jobs)], arguments.deadline)
        summaries = [json.loads(pathlib.Path(f"{folder}/{job}/summary.json").read_text()) for job in range(jobs)]
        return statistics.mean(s["step"] / s["train_seconds"] for s in summaries)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=net.rate, default="100mbit", help="of each host's link, both ways (default: 100mbit)")
    parser.add_argument("--workers", type=int, default=4, help="of a job, one a host (default: 4)")
    parser.add_argument("--jobs", type=numbers(int), default="1,2", help="at once (default: 1,2)")
    parser.add_argument("--jitter", type=numbers(float), default="0,50,100,200", help="milliseconds (default: 0,50,100,200)")
    parser.add_argument("--ways", default="local,gossip", help="local and gossip (default: both)")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--sample-ms", type=float, default=6, help="that a sample takes, by a sleep (default: 6)")
    parser.add_argument("--build", type=pathlib.Path, default=turns.HERE.parent / "build/release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=600, help="seconds after which a turn is ended (default: 600)")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file too")
    parser.add_argument("--quick", action="store_true", help="one round, for a first look")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/jitter.py makes network namespaces, which only root may: run it with sudo")
    unknown = [way for way in arguments.ways.split(",") if way not in WAYS]
    if unknown or not 2 <= arguments.workers <= 64 or min(arguments.jobs) < 1:
        sys.exit(f"--ways {arguments.ways} --workers {arguments.workers}: ways are {' and '.join(WAYS)}, workers 2 to 64, "
                 "and there is at least one job")
    turns.set_signals()
    program = str((arguments.build / "asup").resolve())
    cases = [(way, jobs, jitter) for way in arguments.ways.split(",") for jobs in arguments.jobs
             for jitter in arguments.jitter]

    speeds = {case: [] for case in cases}
    with net.Network(arguments.workers, arguments.rate) as network:
        for _ in range(1 if arguments.quick else arguments.rounds):
            for case in cases:
                speeds[case].append(turn(network, program, *case, arguments))
    print(f"steps a second of a job of {arguments.workers} workers, links of {arguments.rate / 1e6:g} Mbit/s both ways")
    print(f"{'way':>8} {'jobs':>5} {'jitter ms':>10} {'steps/s':>8} {'least':>7} {'most':>7} {'x none':>7}")
    rows = []
    for way, jobs, jitter in cases:
        speed = statistics.median(speeds[way, jobs, jitter])
        least, most = min(speeds[way, jobs, jitter]), max(speeds[way, jobs, jitter])
        none = speeds.get((way, jobs, 0))
        rows.append({"way": way, "jobs": jobs, "jitter_ms": jitter, "steps_per_s": speed, "least_steps_per_s": least,
                     "most_steps_per_s": most, "rate_bit_s": arguments.rate, "workers": arguments.workers,
                     "times_none": speed / statistics.median(none) if none else None})
        print(f"{way:>8} {jobs:>5} {jitter:>10g} {speed:8.2f} {least:7.2f} {most:7.2f} {rows[-1]['times_none'] or 0:7.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
