#!/usr/bin/env python3
"""Time to an accuracy on a slow network, by every way of staying in step.

The hosts are those of hosts.py: network namespaces of this machine whose links are held to --rate, both ways, one
worker on each, and a server beside each where the way has servers. A sample takes --sample-ms by a real sleep, so that
this machine's cores are not the limit; with --slow F the last worker takes F times as long. Ways take turns, seed after
seed. Tests do not count.

`speed` is samples a second by what the workers could do together if none ever waited, `idle` the share of the time in
which workers stood still for an exchange, `MB` what a worker sent. The report (--html) has accuracy over seconds and over
bytes. Needs root.

    bench/time_to_accuracy.py [--rate 100mbit] [--ways allreduce,local,...] [--slow 3] [--seeds 3] [--html FILE] [--json FILE]
"""
import argparse
import html
import json
import os
import pathlib
import shlex
import shutil
import statistics
import sys

import hosts as net
import turns

WAYS = {
    "allreduce": "--sync allreduce",
    "balance": "--sync allreduce --balance",
    "local": "--sync local --every 16",
    "local-auto": "--sync local --every auto",
    "rounds": "--sync local --round-seconds 2",
    "diloco": "--sync diloco --every 100 --optimizer adamw --lr 0.001",
    "gossip": "--sync gossip --every 8",
    "adpsgd": "--sync adpsgd --every 8",
    "bsp": "--sync server --pace bsp",
    "ssp": "--sync server --pace ssp --staleness 4",
    "asp": "--sync server --pace asp",
    "asup": "--sync asup",
}
USUAL = "allreduce,local,rounds,diloco,gossip,adpsgd"
COLOURS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0"]


def ways(text):
    names = text.split(",")
    for name in names:
        if name not in WAYS:
            raise argparse.ArgumentTypeError(f"there is no way '{name}'; there is {', '.join(WAYS)}")
    return names


def train(network, arguments, way, seed):
    """Trains by the way; returns what the run folder tells."""
    program = str((arguments.build / "asup").resolve())
    folder = arguments.out.resolve() / f"{way}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    servers = arguments.workers if "server" in WAYS[way] or "asup" in WAYS[way] else 0
    handicap = f"sample_ms={arguments.sample_ms}"
    if arguments.slow > 1:
        handicap += f" slow={arguments.workers - 1}:{arguments.slow}"
    flags = ["--model", arguments.model, "--data", arguments.data, "--batch", arguments.batch, "--steps", arguments.steps,
             "--lr", arguments.lr, *([] if "adam" in WAYS[way] else ["--momentum", 0.9]), "--seed", seed, "--threads", 1, "--eval-every",
             max(1, arguments.steps // arguments.tests), "--checkpoint-every", "never", "--out", folder]
    flags = list(map(str, flags))
    for word in shlex.split(WAYS[way]):  # what the way says goes before what all have
        if word.startswith("--") and word in flags:
            at = flags.index(word)
            del flags[at:at + 2]
    addresses = ",".join(network.address(host) for host in range(arguments.workers))
    command = [program, "run", "--ssh", str(network.agent), "--hosts", addresses, "-n", str(arguments.workers),
               "--interface", f"{net.NETWORK}.0/24", "--env", f"ASUP_HANDICAP={handicap}"]
    if servers:
        command += ["--servers", str(servers)]
    command += ["--", program, "train", *flags, *shlex.split(WAYS[way]), "--workers", str(arguments.workers)]
    if servers:
        command += ["--servers", str(servers)]
    turns.run_together([[str(network.agent), network.address(0), shlex.join(command)]], arguments.deadline)
    return read(folder, arguments)


def read(folder, arguments):
    summary = json.loads((folder / "summary.json").read_text())
    steps, testing, curve = arguments.steps, 0, []
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        if "test_accuracy" in row:
            testing += row["eval_s"]
            curve.append((row["seconds"] - testing, row["test_accuracy"], row["step"] / steps))
    mb = summary["bytes_sent"] / arguments.workers / 1e6
    before, reached = (0, 0.1, 0), None
    for point in curve:
        if reached is None and point[1] >= arguments.target:
            share = (arguments.target - before[1]) / max(point[1] - before[1], 1e-9)
            reached = before[0] + share * (point[0] - before[0])
        before = point
    seconds = curve[-1][0]
    possible = (arguments.workers - 1 + 1 / arguments.slow) * 1000 / arguments.sample_ms
    return {"seconds_to_target": reached, "seconds": seconds, "accuracy": curve[-1][1], "mb_sent": mb,
            "idle": summary["comm_s"] / max(summary["train_seconds"], 1e-9),
            "speed": summary["samples"] / seconds / possible,
            "curve": [{"seconds": s, "accuracy": a, "mb": mb * done} for s, a, done in curve]}


def mean(runs, key):
    values = [run[key] for run in runs]
    return None if None in values else statistics.mean(values)


def chart(results, over, label):
    """Accuracy over seconds or bytes, as SVG."""
    width, height, left, bottom = 640, 320, 50, 36
    most = max(point[over] for runs in results.values() for run in runs for point in run["curve"])
    least = min(point["accuracy"] for runs in results.values() for run in runs for point in run["curve"])

    def at(point):
        x = left + (width - left - 10) * point[over] / most
        y = 10 + (height - bottom - 10) * (1 - (point["accuracy"] - least) / max(1e-9, 1 - least))
        return f"{x:.1f},{y:.1f}"
    lines = [f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
             f'<text x="{width / 2}" y="{height - 4}" text-anchor="middle">{label}</text>',
             f'<text x="4" y="16">100 %</text><text x="4" y="{height - bottom}">{least:.0%}</text>',
             f'<text x="{width - 4}" y="{height - 18}" text-anchor="end">{most:.3g}</text>',
             f'<path d="M{left} 10V{height - bottom}H{width - 10}" fill="none" stroke="#888"/>']
    for number, runs in enumerate(results.values()):
        for run in runs:
            path = " ".join(at(point) for point in run["curve"])
            lines.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="2"/>')
    return "\n".join(lines + ["</svg>"])


def title(arguments):
    slow = f", the last one {arguments.slow:g} times slower" if arguments.slow > 1 else ""
    return (f"{arguments.model} on {arguments.data}, {arguments.workers} workers{slow}, links of "
            f"{arguments.rate / 1e6:g} Mbit/s, global batch {arguments.batch}, {arguments.steps} steps, "
            f"{arguments.seeds} seeds, {arguments.sample_ms:g} ms a sample")


def rows_of(results, arguments):
    first = mean(results.get("allreduce", []), "seconds_to_target") if results.get("allreduce") else None
    for way, runs in results.items():
        reached = mean(runs, "seconds_to_target")
        yield {"way": way, "flags": WAYS[way], "rate_bit_s": arguments.rate, "slow": arguments.slow,
               "seeds": len(runs), "target": arguments.target, "seconds_to_target": reached,
               "times_allreduce": first / reached if first and reached else None,
               **{key: mean(runs, key) for key in ("seconds", "accuracy", "mb_sent", "idle", "speed")}}


def write_html(results, arguments):
    head = "".join(f"<th>{text}</th>" for text in ("way", f"s to {arguments.target:.0%}", "× all-reduce", "accuracy", "MB sent",
                                                   "idle", "speed"))
    body = ""
    for number, row in enumerate(rows_of(results, arguments)):
        reached = f"{row['seconds_to_target']:.1f}" if row["seconds_to_target"] else "not reached"
        times = f"{row['times_allreduce']:.2f}" if row["times_allreduce"] else ""
        colour = COLOURS[number % len(COLOURS)]
        body += (f"<tr><td><span style='color:{colour}'>■</span> {row['way']}<br><code>{html.escape(row['flags'])}</code></td>"
                 f"<td>{reached}</td><td>{times}</td><td>{row['accuracy']:.2%}</td><td>{row['mb_sent']:.1f}</td>"
                 f"<td>{row['idle']:.2f}</td><td>{row['speed']:.2f}</td></tr>\n")
    arguments.html.write_text(
        f"<!doctype html><meta charset=utf-8><title>Time to accuracy</title><style>body{{font:15px sans-serif;margin:2em}}"
        f"td,th{{padding:4px 12px;text-align:left}}</style><h1>Time to accuracy</h1><p>{title(arguments)}</p>"
        f"<table><tr>{head}</tr>{body}</table><h2>Accuracy over seconds</h2>{chart(results, 'seconds', 'seconds')}"
        f"<h2>Accuracy over bytes</h2>{chart(results, 'mb', 'MB that a worker sent')}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=net.rate, default="100mbit", help="of each host's link, both ways (default: 100mbit)")
    parser.add_argument("--ways", type=ways, default=USUAL, help=f"of {', '.join(WAYS)} (default: {USUAL})")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--slow", type=float, default=1, help="times that the last worker takes (default: 1)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--tests", type=int, default=10, help="of a run (default: 10)")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--sample-ms", type=float, default=2)
    parser.add_argument("--target", type=float, default=0.8, help="test accuracy (default: 0.8)")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--build", type=pathlib.Path, default=turns.HERE.parent / "build/release")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/time-to-accuracy"), help="folder of the runs")
    parser.add_argument("--deadline", type=float, default=1800, help="seconds after which a run is ended (default: 1800)")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--html", type=pathlib.Path)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/time_to_accuracy.py makes network namespaces, which only root may: run it with sudo")
    arguments.out.mkdir(parents=True, exist_ok=True)
    turns.set_signals()
    print(title(arguments), flush=True)
    results = {way: [] for way in arguments.ways}
    with net.Network(arguments.workers, arguments.rate) as network:
        for seed in range(1, arguments.seeds + 1):
            for way in arguments.ways:
                run = train(network, arguments, way, seed)
                results[way].append(run)
                print(f"seed {seed}: {way}: {run['seconds']:.1f} s, {run['accuracy']:.2%}", file=sys.stderr, flush=True)
    print(f"{'way':>11} {f's to {arguments.target:.0%}':>12} {'x allreduce':>12} {'accuracy':>9} {'MB sent':>9} {'idle':>6} {'speed':>6}")
    for row in rows_of(results, arguments):
        reached = f"{row['seconds_to_target']:.1f}" if row["seconds_to_target"] else "not reached"
        times = f"{row['times_allreduce']:.2f}" if row["times_allreduce"] else ""
        print(f"{row['way']:>11} {reached:>12} {times:>12} {row['accuracy']:>9.2%} {row['mb_sent']:>9.1f} {row['idle']:>6.2f} "
              f"{row['speed']:>6.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps([{**row, "runs": results[row["way"]]} for row in rows_of(results, arguments)],
                                             indent=2) + "\n")
    if arguments.html:
        write_html(results, arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
