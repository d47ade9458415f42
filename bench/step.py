#!/usr/bin/env python3
"""Step time of data-parallel training: asup, independent processes, and PyTorch's DDP on gloo.

All run at once, with as many processes each, and take turns of a few steps, so that what else the
machine does meets them alike; while one takes its turn, the others sleep. DDP has the fastest of its
settings, which each have a try before. `lost` is the median step's excess over that of independent
processes, whose steps exchange nothing, at their best: `kept` are those whose malloc keeps the memory
that it is given back, so that gradients, which are freed and made anew in every step, do not come from
the kernel page by page each time. `faults` are pages that a process got from it, and `cpu ms` what it used
of a processor, for each step: on a busy machine that tells more than the clock; `sent MB` what it sent between hosts.
ddp_gloo also has `lost_to_python`, its excess over independent Python processes at their best.

With --rate each rank has a host of its own, with such a link (bench/hosts.py; needs root). Peers that compress are for
that: asup_dgc and others beside ddp_bf16, ddp_fp16 and ddp_powersgd, which are DDP with its communication hooks.

    bench/step.py [--ranks 2,4] [--build build/release] [--against BUILD] [--json FILE] [--quick]
    bench/step.py --rate 1gbit --ranks 4 --peers asup,asup_dgc,independent_kept,ddp_gloo,ddp_fp16,ddp_powersgd
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import select
import socket
import statistics
import subprocess
import sys
import tempfile

import hosts
import turns

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {"resnet18": 0.5, "mlp": 0.9}  # GB that a process takes, at most
# glibc's malloc takes all memory from its heap, and never gives any of it back.
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(1 << 28)}
KEPT_BY_ASUP = {"BENCH_KEEP_TENSOR_MEMORY": "1"}
DDP = {"ddp": {}, "ddp_static": {}, "ddp kept": KEPT, "ddp_static kept": KEPT}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@dataclasses.dataclass
class Usage:
    faults: float = 0  # minor ones
    cpu_s: float = 0
    sent: float = 0  # bytes between hosts

    def __add__(self, other):
        return Usage(self.faults + other.faults, self.cpu_s + other.cpu_s, self.sent + other.sent)

    def __sub__(self, other):
        return self + other * -1

    def __mul__(self, factor):
        return Usage(self.faults * factor, self.cpu_s * factor, self.sent * factor)


class Peer:
    """The processes of one way of training."""

    def __init__(self, name, commands, environments, network=None):
        self.name = name
        self.network = network
        self.times = []
        self.used = Usage()
        self.processes = [
            subprocess.Popen(command, env=e, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            for command, e in zip(commands, environments)
        ]
        for process in self.processes:
            self.answer(process, 300)

    def answer(self, process, seconds):
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else ""
        if not line:
            sys.exit(f"{self.name}: a process ended or gave no answer in {seconds} s")
        return line

    def take_turn(self, steps, count):
        before = self._usage()
        for process in self.processes:
            process.stdin.write(f"{steps}\n")
        answers = [[float(t) for t in self.answer(p, 600).split()] for p in self.processes]
        if count:  # a step is as long as its slowest rank's
            self.times += [max(step) for step in zip(*answers)]
            self.used += self._usage() - before

    def _usage(self):
        """Of all processes so far."""
        total = Usage(sent=self.network.bytes_sent() if self.network else 0)
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            total += Usage(int(fields[7]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
        return total

    def usage_of_a_step(self):
        return self.used * (1 / len(self.times) / len(self.processes))

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(30)


class Stage:
    """What peers of one measurement have in common."""

    def __init__(self, build, ranks, model, path, network=None):
        self.build, self.ranks, self.model, self.path, self.network = build, ranks, model, path, network
        self.key = tempfile.NamedTemporaryFile("w")  # of jobs between hosts
        self.key.write(os.urandom(32).hex() + "\n")
        self.key.flush()
        self.python = os.environ.get("ASUP_PYTHON") or str(HERE.parent / ".venv/bin/python")
        self.plain = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR")

    def launched(self, more):
        port = str(free_port())
        if self.network:
            common = dict(self.plain, LOCAL_WORLD_SIZE="1", MASTER_ADDR=self.network.address(0),
                          GLOO_SOCKET_IFNAME="eth0", ASUP_KEY_FILE=self.key.name,
                          ASUP_TLS="off")  # DDP does not encrypt either
        else:
            common = dict(self.plain, LOCAL_WORLD_SIZE=str(self.ranks), MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
        common.update(WORLD_SIZE=str(self.ranks), MASTER_PORT=port, **more)
        return [dict(common, RANK=str(r), LOCAL_RANK="0" if self.network else str(r)) for r in range(self.ranks)]

    def asup(self, name, build=None, more={}):
        return Peer(name, self._command([str((build or self.build) / "bench/bench_step")], "asup"), self.launched(more),
                    self.network)

    def independent(self, name, program, more={}):
        return Peer(name, self._command(program, "independent"), [dict(self.plain, **more)] * self.ranks)

    def ddp(self, name="ddp_gloo", kinds=DDP):
        """With the fastest of its settings."""
        best = None
        for kind, more in kinds.items():
            peer = Peer(name, self._command(self.python_program, kind.split()[0]), self.launched(more), self.network)
            peer.take_turn(3, count=False)
            peer.take_turn(5, count=True)
            peer.kind, peer.trial = kind, statistics.median(peer.times)
            slower = peer
            if best is None or peer.trial < best.trial:
                best, slower = peer, best
            if slower:
                slower.close()
        best.times, best.used = [], Usage()
        return best

    @property
    def python_program(self):
        return [self.python, str(HERE / "step_ddp.py")]

    @property
    def own_program(self):
        return [str(self.build / "bench/bench_step")]

    def _command(self, program, peer):
        """Of each rank."""
        def on_host(rank):
            return ["ip", "netns", "exec", self.network.namespace(rank)] if self.network else []
        return [[*on_host(rank), *program, peer, self.model, self.path] for rank in range(self.ranks)]


def compressed(name):
    """asup's peer of this --compress, after its warm-up."""
    more = {"ASUP_COMPRESS": name}
    if name in ("topk", "dgc") or ":" in name:
        more |= {"ASUP_COMPRESS_WARMUP": "0", "ASUP_COMPRESS_PER": "worker"}
    return lambda stage: stage.asup(f"asup_{name.split(':')[0]}", more=more)


def sharded(name):
    """asup's peer of which each rank keeps a part with this --shard."""
    return lambda stage: stage.asup(f"asup_shard_{name}", more={"ASUP_SHARD": name, **KEPT_BY_ASUP})


def ddp_hook(name):
    return lambda stage: stage.ddp(f"ddp_{name}", {f"ddp_{name}": {}})


PEERS = {
    "asup": lambda stage: stage.asup("asup"),
    "asup_kept": lambda stage: stage.asup("asup_kept", more=KEPT),
    "asup_apply": lambda stage: stage.asup("asup_apply", more={"ASUP_NON_FINITE": "apply"}),
    "independent": lambda stage: stage.independent("independent", stage.own_program),
    "independent_kept": lambda stage: stage.independent("independent_kept", stage.own_program, KEPT),
    "asup_kept_by_asup": lambda stage: stage.asup("asup_kept_by_asup", more=KEPT_BY_ASUP),
    "independent_kept_by_asup": lambda stage: stage.independent("independent_kept_by_asup", stage.own_program, KEPT_BY_ASUP),
    "ddp_gloo": lambda stage: stage.ddp(),
    "python": lambda stage: stage.independent("python", stage.python_program),
    "python_kept": lambda stage: stage.independent("python_kept", stage.python_program, KEPT),
    **{f"asup_{name}": compressed(name) for name in ("bf16", "int8", "int4", "onebit", "topk", "dgc", "powersgd")},
    "asup_auto": compressed("auto:int8,dgc"),
    **{f"asup_shard_{name}": sharded(name) for name in ("optimizer", "gradients", "parameters")},
    **{f"ddp_{name}": ddp_hook(name) for name in ("bf16", "fp16", "powersgd")},
}
USUAL = "asup", "asup_kept", "independent", "independent_kept", "ddp_gloo", "python", "python_kept"


def measure(stage, names, against, turn_count, steps):
    peers = [PEERS[name](stage) for name in names]
    if against:
        peers.insert(1, stage.asup("asup_against", against))
    for peer in peers:
        peer.take_turn(3, count=False)
    for i in range(turn_count):
        for k in range(len(peers)):  # each turn begins with another one
            peer = peers[(i + k) % len(peers)]
            peer.take_turn(1, count=False)  # wakes its caches
            peer.take_turn(steps, count=True)
    for peer in peers:
        peer.close()
    return {peer.name: peer for peer in peers}


def rows_of(stage, peers):
    medians = {name: statistics.median(peer.times) for name, peer in peers.items()}

    def lost(name, *to):
        """Beside the faster of those that exchange nothing; None where neither was measured."""
        least = min((medians[other] for other in to if other in medians), default=None)
        return medians[name] / least - 1 if least else None

    for name, peer in peers.items():
        usage = peer.usage_of_a_step()
        row = {"model": stage.model, "peer": name, "ranks": stage.ranks, "conv_path": stage.path,
               "hosts": stage.network is not None,
               "p50_us": medians[name], "min_us": min(peer.times), "lost": lost(name, "independent", "independent_kept"),
               "cpu_us": usage.cpu_s * 1e6, "faults": usage.faults}
        if stage.network:
            row["sent_bytes"] = usage.sent
        if name.startswith("ddp_"):
            row["settings"] = peer.kind
            row["lost_to_python"] = lost(name, "python", "python_kept")
        yield row


def check_memory(ranks, models, peers):
    with open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) / 1e6
    for model in models:
        needed = MODELS[model] * ranks * peers
        if needed > free:
            sys.exit(f"{peers} peers of {ranks} processes with {model} want some {needed:.0f} GB of memory, and {free:.0f} "
                     "are free: take fewer --ranks or another of --models")


def numbers(text):
    """'2,4,8' for argparse."""
    try:
        ranks = [int(word) for word in text.split(",")]
        if min(ranks) < 2 or max(ranks) > 8:
            raise ValueError
        return ranks
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}': write numbers from 2 to 8, as 2,4,8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=numbers, default="2", help="numbers of ranks, 2 to 8 (default: 2)")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build/release")
    parser.add_argument("--against", type=pathlib.Path, metavar="BUILD",
                        help="another build of asup, say an older one's, as one more peer")
    parser.add_argument("--models", default=",".join(MODELS), help="(default: %(default)s)")
    parser.add_argument("--peers", default=",".join(USUAL), metavar="NAME,...",
                        help=f"of {', '.join(PEERS)} (default: %(default)s); asup_apply: asup that does not look whether "
                        "gradients are finite")
    parser.add_argument("--rate", type=hosts.rate, help="each rank has a host of its own, with such a link, as 1gbit")
    parser.add_argument("--conv-path", choices=["onednn", "native"],
                        default="native" if platform.machine() == "aarch64" else "onednn",
                        help="convolution path of all peers (default: the faster of this processor)")
    parser.add_argument("--turns", type=int, help="how often each peer has its turn (default: 12; --quick: 4)")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file too")
    parser.add_argument("--quick", action="store_true", help="fewer turns, for a first look")
    arguments = parser.parse_args()
    models, peers = arguments.models.split(","), arguments.peers.split(",")
    for flag, given, known in (("--models", models, MODELS), ("--peers", peers, PEERS)):
        if not set(given) <= set(known):
            parser.error(f"{flag} {','.join(given)}: there is {', '.join(known)}")
    for build in filter(None, (arguments.build, arguments.against)):
        if not (build / "bench/bench_step").exists():
            sys.exit(f"{build}/bench/bench_step is not there: build it first (cmake --build {build} --target bench_step)")
    for ranks in arguments.ranks:
        check_memory(ranks, models, len(peers) + bool(arguments.against) + ("ddp_gloo" in peers))

    turn_count = arguments.turns or (4 if arguments.quick else 12)
    print(f"{'model':9} {'ranks':>5} {'peer':17} {'p50 ms':>9} {'min ms':>9} {'lost':>8} {'cpu ms':>8} {'faults':>8}"
          + (f" {'sent MB':>8}" if arguments.rate else ""))
    if arguments.rate and os.geteuid() != 0:
        sys.exit("bench/step.py --rate makes network namespaces, which only root may: run it with sudo")
    if arguments.rate:
        turns.set_signals()
    network = hosts.Network(max(arguments.ranks), arguments.rate) if arguments.rate else contextlib.nullcontext()
    with network:
        measure_all(arguments, models, peers, turn_count, network if arguments.rate else None)


def measure_all(arguments, models, peers, turn_count, network):
    rows = []
    for model in models:
        for ranks in arguments.ranks:
            stage = Stage(arguments.build, ranks, model, arguments.conv_path, network)
            for row in rows_of(stage, measure(stage, peers, arguments.against, turn_count, 5)):
                rows.append(row)
                lost = "-" if row["lost"] is None else f"{row['lost']:.1%}"
                print(f"{model:9} {ranks:5} {row['peer']:17} {row['p50_us'] / 1e3:9.1f} {row['min_us'] / 1e3:9.1f} {lost:>8} "
                      f"{row['cpu_us'] / 1e3:8.1f} {row['faults']:8.0f}"
                      + (f" {row['sent_bytes'] / 1e6:8.3f}" if "sent_bytes" in row else "")
                      + (f"  {row['settings']}" if "settings" in row else ""),
                      flush=True)
            if arguments.json:  # what there is so far: a long run may be broken off
                arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
