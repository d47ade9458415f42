#!/usr/bin/env python3
"""A pipeline of two stages on two cores against one core, and against torch.distributed.pipelining on gloo.

A GPT of equal blocks trains in each of them, in fp32, with one thread a rank. All run at once and take turns of
a few steps, so that what else the machine does meets them alike; while one takes its turn, the others sleep. One core has
the faster of whole batches and micro-batches. `stream` is a pipeline that does not
run empty between batches, nor between its turns. All pipelines have as many blocks in each stage. `alone at once` is as many
processes as there are ranks, each with a whole model of its own: what they take longer than one is what the cores have from
each other. `speedup` is by it; `bubble` is the share of a step in which ranks stand
still, measured, and as the schedule's price predicts it from the measured times of the stages.

With --slow RANK:FACTOR one rank sleeps after all that it computes, so that it takes FACTOR times as long, and stages are
cut by the measured costs of layers: `of summed speed` is what the pipeline makes of the speeds of its ranks together.

    bench/pipeline.py [--ranks 2] [--micro-batches 8] [--depth 8] [--width 256] [--build build/release] [--slow 1:3] [--json FILE] [--quick]
"""

import argparse
import json
import os
import pathlib
import statistics

import step
import turns

HERE = pathlib.Path(__file__).resolve().parent
SCHEDULES = ("1f1b", "zb1p")


def on_this_host(ranks):
    """The environments of a job, as torchrun makes them."""
    common = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR",
                  WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=str(step.free_port()), GLOO_SOCKET_IFNAME="lo")
    return [dict(common, RANK=str(r), LOCAL_RANK=str(r)) for r in range(ranks)]


def start(name, program, ranks, *words):
    return step.Peer(name, [[*map(str, program), *map(str, words)]] * ranks, on_this_host(ranks))


def bubble_of(peer):
    """(measured, predicted) of an asup pipeline."""
    for process in peer.processes:
        process.stdin.write("0\n")
    return [[float(word) for word in peer.answer(p, 60).split()] for p in peer.processes][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="of a turn")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build/release")
    parser.add_argument("--slow", metavar="RANK:FACTOR", help="one rank is slow; asup's pipelines alone")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    turns.set_signals()
    if args.quick:
        args.rounds, args.steps, args.width = 1, 1, 64
    ours = [args.build / "bench/bench_pipeline"]
    theirs = [os.environ.get("ASUP_PYTHON") or HERE.parent / ".venv/bin/python", HERE / "peers/pipeline_torch.py"]
    options = args.depth, args.width
    peers = [start("alone, whole batch", ours, 1, "alone", 1, *options),
             start("alone, micro-batches", ours, 1, "alone", args.micro_batches, *options)]
    for schedule in SCHEDULES:
        slow = [args.slow] if args.slow else []
        peers.append(start(f"asup {schedule}", ours, args.ranks, schedule, args.micro_batches, *options, *slow))
        if not args.slow:
            peers.append(start(f"torch {schedule}", theirs, args.ranks, schedule, args.micro_batches, *options))
    if not args.slow:
        peers.append(start("asup stream", ours, args.ranks, "stream", args.micro_batches, *options))
        peers.append(start(f"{args.ranks} alone at once", ours, args.ranks, "alone", args.micro_batches, *options))
    try:
        for peer in peers:
            peer.take_turn(1, False)
        for i in range(args.rounds):
            for k in range(len(peers)):
                peers[(i + k) % len(peers)].take_turn(args.steps, True)
        rows = []
        for peer in peers:
            row = {"peer": peer.name, "ranks": len(peer.processes),
                   "micro_batches": args.micro_batches, "depth": args.depth, "width": args.width,
                   "p50_us": statistics.median(peer.times), "min_us": min(peer.times)}
            if peer.name.startswith("asup"):
                row["bubble"], row["predicted_bubble"] = bubble_of(peer)
            rows.append(row)
    finally:
        for peer in peers:
            peer.close()
    core = min(row["p50_us"] for row in rows if row["peer"].startswith("alone"))
    summed = args.ranks - 1 + 1 / float(args.slow.split(":")[1]) if args.slow else None
    by_name = {row["peer"]: row for row in rows}
    print(f"{'':24}{'step':>10}{'speedup':>10}{'by torch':>10}{'bubble':>10}{'predicted':>11}")
    for row in rows:
        row["speedup"] = core / row["p50_us"]
        if summed and row["peer"].startswith("asup"):
            row["of_summed_speed"] = row["speedup"] / summed
        other = by_name.get(row["peer"].replace("asup", "torch")) if row["peer"].startswith("asup") else None
        if other:
            row["faster_than_torch"] = other["p50_us"] / row["p50_us"]
        cells = [f"{row['p50_us'] / 1000:.1f} ms", f"{row['speedup']:.2f}×",
                 f"{row['faster_than_torch']:.2f}×" if other else "",
                 f"{row['bubble']:.1%}" if "bubble" in row else "",
                 f"{row['predicted_bubble']:.1%}" if "bubble" in row else ""]
        print(f"{row['peer']:24}{cells[0]:>10}{cells[1]:>10}{cells[2]:>10}{cells[3]:>10}{cells[4]:>11}"
              + (f"   {row['of_summed_speed']:.2f} of summed speed" if "of_summed_speed" in row else ""))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
