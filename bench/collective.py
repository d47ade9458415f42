#!/usr/bin/env python3
"""All-reduce of floats in place on one host: asup, Open MPI, Gloo, and the limit of the memory.

The peers take turns of a fraction of a second at each size, several rounds, so that what else the
machine does meets them alike; a figure is the median of the rounds' medians. The limit
(bench/limit.cc) is the memory traffic and nothing else: `share` is the limit's time over asup's.
Open MPI counts with the faster of vader and UCX, each with the fastest of its algorithms at each
size. `steal` is what the hypervisor gave to others during a peer's turns.

    bench/collective.py [--ranks 2,4,8] [--sizes 1K,...,100M] [--build build/release]
                        [--against BUILD] [--json FILE] [--quick]
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile

import turns

os.environ["ASUP_BENCH_LIMITS"] = ""  # measured here, by turns with the others
SECONDS = 0.2  # a size and turn, as `asup bench collective --quick` takes
MIB = 1 << 20


def asup(build, ranks, sizes, buffers, deadline):
    def turn():
        with tempfile.NamedTemporaryFile(suffix=".json") as rows:
            turns.run_together([[str(build / "asup"), "bench", "collective", "--op", "allreduce", "--ranks", str(ranks),
                                 "--sizes", ",".join(map(turns.human, sizes)), "--buffers", buffers, "--quick",
                                 "--json", rows.name]], deadline)
            return json.load(rows)
    return turn


def limit(build, ranks, sizes, deadline):
    command = [str(build / "bench/bench_limit"), str(ranks), str(SECONDS), *map(str, sizes)]
    return lambda: turns.rows_of_lines(turns.run_together([command], deadline))


# What `mpirun` needs to use the shared memory of one host.
OPEN_MPI = {
    "vader": ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"],
    "ucx": ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any",
            "--mca", "btl", "^vader,tcp,openib,ofi"],
}


def open_mpi(program, ranks, sizes, kind, deadline):
    words = ["-n", str(ranks), *OPEN_MPI[kind]]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    if ranks > len(os.sched_getaffinity(0)):
        words += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    return turns.OpenMpi(words, program, sizes, SECONDS, deadline)


class Figures:
    """What was measured with one number of ranks."""

    def __init__(self, peers, ranks, sizes):
        self.peers = {peer.name: peer for peer in peers}
        self.ranks = ranks
        self.sizes = sizes

    def us(self, name, size, buffers):
        peer = self.peers.get(name)
        return peer.p50(size, buffers) if peer else None

    def open_mpi(self, size):
        times = [self.us(name, size, "private") for name in ("open_mpi_vader", "open_mpi_ucx")]
        return min((t for t in times if t), default=None)

    def faster(self, size, buffers):
        """How many times as fast as Open MPI asup is."""
        return ratio(self.open_mpi(size), self.us("asup", size, buffers))

    def share(self, size, buffers, name="asup"):
        return ratio(self.us("limit", size, buffers), self.us(name, size, buffers))

    def rows(self):
        for peer in self.peers.values():
            for size, buffers in peer.rounds:
                yield {"op": "allreduce", "ranks": self.ranks, "bytes": size, "peer": peer.name, "buffers": buffers,
                       "p50_us": peer.p50(size, buffers), "min_us": peer.minimum(size, buffers),
                       "share_of_limit": self.share(size, buffers, peer.name), "steal": peer.steal.share}


def ratio(of, to):
    return of / to if of and to else None


def asup_peer(name, build, ranks, sizes, deadline):
    # Two programs, and one peer: its turn is one of each.
    both = [asup(build, ranks, sizes, buffers, deadline) for buffers in ("shared", "private")]
    return turns.Peer(name, lambda: [row for turn in both for row in turn()])


def measure(build, against, programs, ranks, sizes, rounds, deadline):
    peers = [turns.Peer("limit", limit(build, ranks, sizes, deadline)),
             asup_peer("asup", build, ranks, sizes, deadline)]
    if against:
        peers.append(asup_peer("asup_against", against, ranks, sizes, deadline))
    if "mpi_allreduce" in programs:
        peers += [turns.Peer(f"open_mpi_{kind}", open_mpi(programs["mpi_allreduce"], ranks, sizes, kind, deadline))
                  for kind in OPEN_MPI]
    if "gloo_allreduce" in programs:
        peers.append(turns.Peer("gloo", turns.Gloo(programs["gloo_allreduce"], ranks, sizes, SECONDS, deadline)))
    turns.take_turns(peers, rounds)
    return Figures(peers, ranks, sizes)


def show(value, form):
    return "-" if value is None else format(value, form)


def print_table(figures):
    cores = len(os.sched_getaffinity(0))
    steals = ", ".join(f"{name} {peer.steal.share:.1%}" for name, peer in figures.peers.items())
    print(f"\n{figures.ranks} ranks on {cores} cores, us (steal: {steals})")
    print(f"{'':>6} | {'shared buffers':^35} | {'private buffers':^35} | {'peers':^29}")
    print(f"{'size':>6} | {'limit':>9} {'asup':>9} {'share':>6} {'/MPI':>8} | {'limit':>9} {'asup':>9} {'share':>6} "
          f"{'/MPI':>8} | {'vader':>9} {'ucx':>9} {'gloo':>9}")
    for size in figures.sizes:
        def us(name, buffers="private"):
            return f"{show(figures.us(name, size, buffers), '9.1f'):>9}"

        line = f"{turns.human(size):>6}"
        for buffers in ("shared", "private"):
            line += (f" | {us('limit', buffers)} {us('asup', buffers)} {show(figures.share(size, buffers), '.2f'):>6} "
                     f"{show(figures.faster(size, buffers), '.2f') + 'x':>8}")
        print(f"{line} | {us('open_mpi_vader')} {us('open_mpi_ucx')} {us('gloo')}")


def print_against(figures):
    for buffers in ("shared", "private"):
        times = ((size, ratio(figures.us("asup_against", size, buffers), figures.us("asup", size, buffers)))
                 for size in figures.sizes)
        print(f"times as fast as the other build, {buffers} buffers: "
              + ", ".join(f"{turns.human(size)} {show(value, '.2f')}" for size, value in times))


# What is asked of asup: name, least value, of which figure, at which sizes.
GOALS = (
    ("shared buffers, 4-100 MB: 3 x Open MPI", 3.0, lambda f, s: f.faster(s, "shared"), lambda s: s >= 4 * MIB),
    ("shared buffers, 4-100 MB: 0.8 of the limit", 0.8, lambda f, s: f.share(s, "shared"), lambda s: s >= 4 * MIB),
    ("private buffers, all sizes: Open MPI", 1.0, lambda f, s: f.faster(s, "private"), lambda s: True),
    ("private buffers, 100 MB: 2 x Open MPI", 2.0, lambda f, s: f.faster(s, "private"), lambda s: s >= 100 * MIB),
    ("shared buffers, below 4 MB: Open MPI", 1.0, lambda f, s: f.faster(s, "shared"), lambda s: s < 4 * MIB),
)


def goals(measured):
    """Name, least value, and (value, ranks, bytes) of what was measured."""
    for name, least, figure, wanted in GOALS:
        reached = [(figure(f, s), f.ranks, s) for f in measured for s in f.sizes if wanted(s)]
        yield name, least, [item for item in reached if item[0] is not None]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks (default: 2,4,8)")
    parser.add_argument("--sizes", type=turns.sizes, default="1K,16K,256K,4M,25M,100M")
    parser.add_argument("--build", type=pathlib.Path, default=turns.HERE.parent / "build/release")
    parser.add_argument("--against", type=pathlib.Path, metavar="BUILD",
                        help="another build of asup, say an older one's, as one more peer")
    parser.add_argument("--rounds", type=int, help="how often each peer has its turn (default: 7; --quick: 3)")
    parser.add_argument("--deadline", type=float, default=180, help="seconds after which a turn is ended (default: 180)")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file too")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a first look")
    arguments = parser.parse_args()
    try:
        all_ranks = [int(word) for word in arguments.ranks.split(",")]
    except ValueError:
        parser.error(f"--ranks {arguments.ranks}: write numbers as 2,4,8")
    if min(all_ranks) < 2 or max(all_ranks) > 64:
        parser.error(f"--ranks {arguments.ranks}: between 2 and 64")
    for program in ("asup", "bench/bench_limit"):
        if not shutil.which(arguments.build / program):
            sys.exit(f"{arguments.build / program} is not there: `make test` builds everything in build/release; "
                     "--build names another folder")
    programs = turns.peers_in(arguments.build)

    turns.set_signals()
    measured = []
    rounds = arguments.rounds or (3 if arguments.quick else 7)
    print(f"all-reduce of floats in place, medians of {rounds} rounds")
    for ranks in all_ranks:
        measured.append(measure(arguments.build, arguments.against, programs, ranks, arguments.sizes, rounds,
                                arguments.deadline))
        print_table(measured[-1])
        if arguments.against:
            print_against(measured[-1])
        sys.stdout.flush()
        if arguments.json:  # what there is so far: a long run may be broken off
            arguments.json.write_text(json.dumps([row for f in measured for row in f.rows()], indent=2) + "\n")
    turns.print_goals(goals(measured))
    return 1 if any(f.peers[name].failure for f in measured for name in ("asup", "limit")) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
