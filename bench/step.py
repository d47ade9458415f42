#!/usr/bin/env python3
"""Step time of data-parallel training: asup, independent processes, and PyTorch's DDP on gloo.

All run at once as two processes each and take turns of a few steps, so that what else the machine
does meets them alike; while one takes its turn, the others sleep. `lost` is the median step's excess
over the independent processes' (whose steps exchange nothing). ddp_gloo also has `lost_to_python`,
its excess over independent Python processes.

    bench/step.py [--build build/release] [--against BUILD] [--json FILE] [--quick]
"""

import argparse
import json
import os
import pathlib
import platform
import select
import socket
import statistics
import subprocess
import sys

RANKS = 2
HERE = pathlib.Path(__file__).resolve().parent


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Peer:
    """The two processes of one way of training."""

    def __init__(self, name, commands, environments):
        self.name = name
        self.times = []
        self.processes = [
            subprocess.Popen(c, env=e, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            for c, e in zip(commands, environments)
        ]
        for process in self.processes:
            self.answer(process, 120)

    def answer(self, process, seconds):
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else ""
        if not line:
            sys.exit(f"{self.name}: a process ended or gave no answer in {seconds} s")
        return line

    def take_turn(self, steps, count):
        for process in self.processes:
            process.stdin.write(f"{steps}\n")
        answers = [[float(t) for t in self.answer(p, 600).split()] for p in self.processes]
        if count:  # a step is as long as its slower rank's
            self.times += [max(step) for step in zip(*answers)]

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(30)


def start_peers(build, against, model, path):
    python = os.environ.get("ASUP_PYTHON") or str(HERE.parent / ".venv/bin/python")
    plain = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

    def launched(port):
        return [
            dict(plain, RANK=str(r), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(r), LOCAL_WORLD_SIZE=str(RANKS),
                 MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
            for r in range(RANKS)
        ]

    def python_peer(name):
        return [[python, str(HERE / "step_ddp.py"), name, model, path]] * RANKS

    def asup_peer(build, name):
        return [[str(build / "bench/bench_step"), name, model, path]] * RANKS

    peers = [
        Peer("asup", asup_peer(build, "asup"), launched(free_port())),
        Peer("independent", asup_peer(build, "independent"), [plain] * RANKS),
        Peer("ddp_gloo", python_peer("ddp_gloo"), launched(free_port())),
        Peer("independent_python", python_peer("independent"), [plain] * RANKS),
    ]
    if against:
        peers.insert(1, Peer("asup_against", asup_peer(against, "asup"), launched(free_port())))
    return peers


def measure(build, against, model, path, turns, steps):
    peers = start_peers(build, against, model, path)
    for peer in peers:
        peer.take_turn(3, count=False)
    for _ in range(turns):
        for peer in peers:
            peer.take_turn(1, count=False)  # wakes its caches
            peer.take_turn(steps, count=True)
    for peer in peers:
        peer.close()
    return {peer.name: peer.times for peer in peers}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build/release")
    parser.add_argument("--against", type=pathlib.Path, metavar="BUILD",
                        help="another build of asup, say an older one's, as one more peer")
    parser.add_argument("--models", default="resnet18,mlp")
    parser.add_argument("--conv-path", choices=["onednn", "native"],
                        default="native" if platform.machine() == "aarch64" else "onednn",
                        help="convolution path of all peers (default: the faster of this processor)")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    for build in filter(None, (arguments.build, arguments.against)):
        if not (build / "bench/bench_step").exists():
            sys.exit(f"{build}/bench/bench_step is not there: build it first (cmake --build {build} --target bench_step)")

    rows = []
    print(f"{'model':10} {'peer':20} {'p50 ms':>9} {'min ms':>9} {'lost':>8}")
    for model in arguments.models.split(","):
        times = measure(arguments.build, arguments.against, model, arguments.conv_path, 4 if arguments.quick else 12, 5)
        medians = {peer: statistics.median(t) for peer, t in times.items()}
        for peer, t in times.items():
            row = {"model": model, "peer": peer, "ranks": RANKS, "conv_path": arguments.conv_path,
                   "p50_us": medians[peer], "min_us": min(t),
                   "lost": medians[peer] / medians["independent"] - 1}
            if peer == "ddp_gloo":
                row["lost_to_python"] = medians[peer] / medians["independent_python"] - 1
            rows.append(row)
            print(f"{model:10} {peer:20} {medians[peer] / 1e3:9.1f} {min(t) / 1e3:9.1f} {row['lost']:8.1%}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
