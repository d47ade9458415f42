#!/usr/bin/env python3
"""What `--compress auto` chooses against the best fixed choice, over links from slow ones to shared memory.

The peers of bench/step.py (asup without compression, with bf16, int8 and dgc, and with auto:int8,dgc) take turns of a few
steps. `ratio` is auto's median step over that of the fastest of the others; above 1.05 it is marked, as auto is to be
no more than 5 % slower. dgc is measured after its warm-up, with each worker's own numbers, so that it is to be had on one
host too.

With a rate each rank has a host of its own, with such a link (bench/hosts.py; needs root); `memory` is one host.

    bench/auto.py [--rate 100mbit,1gbit,10gbit,memory] [--ranks 4] [--models resnet18,mlp] [--build build/release]
                  [--json FILE] [--quick]
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import sys

import hosts
import step
import turns

RATES = "100mbit", "1gbit", "10gbit", "memory"
AUTO = "asup_auto"
FIXED = "asup", "asup_bf16", "asup_int8", "asup_dgc"
MOST = 1.05  # times the best fixed choice
STEPS = 5    # of a turn


def rates(text):
    """'1gbit,memory' as pairs of the word and bits a second, of memory None, for argparse."""
    return [(word, None if word == "memory" else hosts.rate(word)) for word in text.split(",")]


def row_of(rate, stage, peers):
    medians = {name: statistics.median(peer.times) for name, peer in peers.items()}
    best = min(FIXED, key=medians.get)
    return {"rate": rate, "model": stage.model, "ranks": stage.ranks, "p50_us": medians, "best": best,
            "ratio": medians[AUTO] / medians[best]}


def tell(row):
    milliseconds = "".join(f" {row['p50_us'][name] / 1e3:>10.1f}" for name in (*FIXED, AUTO))
    mark = f"  more than {MOST}" if row["ratio"] > MOST else ""
    print(f"{row['rate']:8} {row['model']:9}{milliseconds} {row['best']:>10} {row['ratio']:>6.2f}{mark}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=rates, default=",".join(RATES), help="of the links (default: %(default)s)")
    parser.add_argument("--ranks", type=int, choices=range(2, 9), default=4, help="(default: %(default)s)")
    parser.add_argument("--models", default=",".join(step.MODELS), help="(default: %(default)s)")
    parser.add_argument("--build", type=pathlib.Path, default=step.HERE.parent / "build/release")
    parser.add_argument("--turns", type=int, help="how often each peer has its turn (default: 12; --quick: 4)")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file too")
    parser.add_argument("--quick", action="store_true", help="fewer turns, for a first look")
    arguments = parser.parse_args()
    models = arguments.models.split(",")
    if not set(models) <= set(step.MODELS):
        parser.error(f"--models {arguments.models}: there is {', '.join(step.MODELS)}")
    if not (arguments.build / "bench/bench_step").exists():
        sys.exit(f"{arguments.build}/bench/bench_step is not there: build it first (cmake --build {arguments.build} "
                 "--target bench_step)")
    if any(bits for _, bits in arguments.rate) and os.geteuid() != 0:
        sys.exit("bench/auto.py makes network namespaces for rates, which only root may: run it with sudo, or with "
                 "--rate memory")
    step.check_memory(arguments.ranks, models, len(FIXED) + 1)
    turns.set_signals()
    print(f"{'rate':8} {'model':9}" + "".join(f" {name:>10}" for name in (*FIXED, AUTO)) + f" {'best':>10} {'ratio':>6}   (ms)")
    measure_all(arguments, models, arguments.turns or (4 if arguments.quick else 12))


def measure_all(arguments, models, turn_count):
    path = "native" if platform.machine() == "aarch64" else "onednn"
    rows = []
    for rate, bits in arguments.rate:
        with hosts.Network(arguments.ranks, bits) if bits else contextlib.nullcontext() as network:
            for model in models:
                stage = step.Stage(arguments.build, arguments.ranks, model, path, network if bits else None)
                rows.append(row_of(rate, stage, step.measure(stage, (*FIXED, AUTO), None, turn_count, STEPS)))
                tell(rows[-1])
                if arguments.json:  # what there is so far: a long run may be broken off
                    arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
