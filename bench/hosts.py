#!/usr/bin/env python3
"""All-reduce of floats between several hosts: asup, Open MPI and Gloo over TCP, all in the clear.

The hosts are network namespaces of this machine, each with a veth pair to a bridge in one more;
`tc ... tbf` limits both directions of every pair to --rate. They are taken down at the end, however
it comes; what a killed run has left is removed by `bench/hosts.py --clean`. Needs root.

`wire` is the share of the wire: 2(n-1)/n * bytes / rate, which every all-reduce must send and
receive, over the time. TCP, IP and Ethernet take a part of the wire for their headers: `tcp` is the
share of what they leave (1448 of 1514 bytes). The peers take turns, several rounds; a figure is the
median of the rounds' medians. With --tls asup has a turn with encrypted links too, as it has them by default.

    bench/hosts.py [--rate 1gbit] [--ranks 2-8] [--sizes 1K,...,100M] [--algorithm A] [--tls] [--json FILE] [--quick]
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

import turns

SECONDS = 0.2  # a size and turn
MIB = 1 << 20
PREFIX = "asup-hosts-"  # of the namespaces' names, before the pid of the run
NETWORK = "10.213.0"    # seen by nobody but these namespaces
TCP_CEILING = 1448 / 1514  # payload of a full frame, with time stamps, as tbf counts it


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def rate(text):
    """'10gbit' as bits a second, for argparse."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(mbit|gbit)", text)
    if not match or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no rate; write it as 100mbit, 1gbit or 10gbit")
    return float(match[1]) * {"mbit": 1e6, "gbit": 1e9}[match[2]]


def ranks(text):
    """'2-8' or '2,4' as a list, for argparse."""
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    words = range(int(match[1]), int(match[2]) + 1) if match else text.split(",")
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 2 or max(numbers) > 64:
        raise argparse.ArgumentTypeError(f"'{text}': write numbers from 2 to 64 as 2-8 or 2,4,8")
    return numbers


class Network:
    """Hosts on a switch. Inside `with` they are there."""

    def __init__(self, hosts, bits_per_second):
        self.hosts = hosts
        self.name = f"{PREFIX}{os.getpid()}-"
        # A burst holds two of the largest packets that the kernel hands down at once, and what the wire carries in
        # a quarter of a millisecond, lest the bucket runs over between two looks at it. Behind it stands a queue
        # of 25 ms, like a switch with deep buffers.
        self.rate = str(int(bits_per_second))
        self.burst = str(int(max(128 << 10, bits_per_second / 8 * 250e-6)))
        self.limit = str(int(max(1 << 20, bits_per_second / 8 * 25e-3)))

    def namespace(self, host):
        return f"{self.name}{host}"

    @staticmethod
    def address(host):
        return f"{NETWORK}.{host + 1}"

    def bytes_sent(self):
        """By all hosts so far, with all headers; of what the kernel hands down at once, those of one packet."""
        def of(host):
            shown = subprocess.run(["ip", "-s", "-j", "-n", self.namespace(host), "link", "show", "eth0"], check=True,
                                   capture_output=True)
            return json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"]
        return sum(of(host) for host in range(self.hosts))

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.agent = pathlib.Path(self.folder.name) / "agent"
        self.agent.write_text(AGENT.format(network=NETWORK, name=self.name))
        self.agent.chmod(0o700)
        try:
            switch = self.namespace("switch")
            ip("netns", "add", switch)
            ip("-n", switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", switch, "link", "set", "bridge", "up")
            # A switch has processors of its own: this one at least filters nothing.
            subprocess.run(["ip", "netns", "exec", switch, "sysctl", "-q", "-e", "-w",
                            "net.bridge.bridge-nf-call-iptables=0", "net.bridge.bridge-nf-call-ip6tables=0",
                            "net.bridge.bridge-nf-call-arptables=0"], check=False)
            for host in range(self.hosts):
                self._add(host, switch)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # this is quick, and must be done
        remove([self.name])
        self.folder.cleanup()
        turns.set_signals()

    def _add(self, host, switch):
        namespace, port = self.namespace(host), f"port{host}"
        ip("netns", "add", namespace)
        ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("-n", namespace, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
        ip("-n", switch, "link", "set", port, "master", "bridge")
        for where, device in ((switch, port), (namespace, "eth0"), (namespace, "lo")):
            ip("-n", where, "link", "set", device, "up")
        for where, device in ((switch, port), (namespace, "eth0")):
            subprocess.run(["tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate, "burst",
                            self.burst, "limit", self.limit], check=True)


# What ssh is to asup run and to mpirun: runs a command on a host, which has its network and its name.
AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do
  case $1 in
    -o) shift 2 ;;
    -G) echo "hostname $2"; exit ;;
    *) shift ;;
  esac
done
host=$((${{1#{network}.}} - 1))
shift
[ "$1" != -- ] || shift
exec ip netns exec "{name}$host" unshare --uts sh -c "hostname host$host; $*"
"""


def namespaces():
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(PREFIX)]


def remove(names):
    """Ends what runs in the namespaces whose names begin so, and removes them; their links go with them."""
    for namespace in namespaces():
        if not any(namespace.startswith(name) for name in names):
            continue
        pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout.split()
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        subprocess.run(["ip", "netns", "del", namespace])


def is_running(pid):
    """Whether this is the pid of a run: not of nobody, of a zombie or of another program."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"hosts.py" in words or b"scenes.py" in words
    except OSError:
        return False


def leftovers():
    """Beginnings of the names that belong to runs which are no more."""
    pids = {namespace[len(PREFIX):].split("-")[0] for namespace in namespaces()}
    return [f"{PREFIX}{pid}-" for pid in sorted(pids) if not is_running(pid)]


def clean():
    names = leftovers()
    remove(names)
    print(f"removed the hosts of {len(names)} runs" if names else "there is nothing to remove")


def asup(network, build, count, sizes, algorithm, deadline, tls="off"):
    program = str((build / "asup").resolve())
    hosts = ",".join(network.address(rank) for rank in range(count))

    def turn():
        with tempfile.NamedTemporaryFile(suffix=".json") as rows:
            command = [program, "run", "--ssh", str(network.agent), "--hosts", hosts, "--interface", f"{NETWORK}.0/24",
                       "--tls", tls, "--", program, "bench", "collective", "--op", "allreduce", "--ranks", str(count),
                       "--buffers", "private", "--sizes", ",".join(map(turns.human, sizes)), "--quick", "--json", rows.name]
            if algorithm:
                command += ["--algorithm", algorithm]
            turns.run_together([[str(network.agent), network.address(0), shlex.join(command)]], deadline)
            return json.load(rows)
    return turn


def open_mpi(network, program, count, sizes, deadline):
    hosts = ",".join(f"{network.address(rank)}:1" for rank in range(count))
    words = ["--allow-run-as-root", "-n", str(count), "--host", hosts, "--bind-to", "none",
             "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(network.agent), "--mca", "pml", "ob1",
             "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]
    if count > len(os.sched_getaffinity(0)):
        words += ["--mca", "mpi_yield_when_idle", "1"]
    return turns.OpenMpi(words, program, sizes, SECONDS, deadline,
                         lambda command: [str(network.agent), network.address(0), shlex.join(command)])


def gloo(network, program, count, sizes, deadline):
    def place(rank):
        return network.address(rank), ["ip", "netns", "exec", network.namespace(rank)]
    return turns.Gloo(program, count, sizes, SECONDS, deadline, place)


def share_of_wire(count, size, bits_per_second, us):
    return 2 * (count - 1) / count * size * 8 / bits_per_second / (us * 1e-6) if us else None


def measure(network, build, programs, count, arguments):
    sizes, deadline = arguments.sizes, arguments.deadline
    peers = [turns.Peer("asup", asup(network, build, count, sizes, arguments.algorithm, deadline))]
    if arguments.tls:
        peers.append(turns.Peer("asup_tls", asup(network, build, count, sizes, arguments.algorithm, deadline, "on")))
    if "mpi_allreduce" in programs:
        peers.append(turns.Peer("open_mpi", open_mpi(network, programs["mpi_allreduce"], count, sizes, deadline)))
    if "gloo_allreduce" in programs:
        peers.append(turns.Peer("gloo", gloo(network, programs["gloo_allreduce"], count, sizes, deadline)))
    turns.take_turns(peers, arguments.rounds or (1 if arguments.quick else 3))
    return peers


def print_table(peers, count, arguments):
    steals = ", ".join(f"{peer.name} {peer.steal.share:.1%}" for peer in peers)
    print(f"\n{count} hosts (steal: {steals})")
    print(f"{'':>6}" + "".join(f" | {peer.name:^26}" for peer in peers))
    print(f"{'size':>6}" + f" | {'us':>12} {'wire':>6} {'tcp':>6}" * len(peers))
    for size in arguments.sizes:
        line = f"{turns.human(size):>6}"
        for peer in peers:
            us = peer.p50(size, "private")
            share = share_of_wire(count, size, arguments.rate, us)
            line += f" | {us:12.1f} {share:6.3f} {share / TCP_CEILING:6.3f}" if us else f" | {'-':>12} {'-':>6} {'-':>6}"
        print(line)
    sys.stdout.flush()


def rows(measured, arguments):
    for count, peers in measured:
        for peer in peers:
            for size, buffers in peer.rounds:
                us = peer.p50(size, buffers)
                share = share_of_wire(count, size, arguments.rate, us)
                algorithm = arguments.algorithm if peer.name.startswith("asup") else ""
                yield {"op": "allreduce", "ranks": count, "bytes": size, "peer": peer.name, "algorithm": algorithm or "auto",
                       "rate_bit_s": arguments.rate, "p50_us": us, "min_us": peer.minimum(size, buffers),
                       "share_of_wire": share, "share_of_tcp": share / TCP_CEILING, "steal": peer.steal.share}


def goals(measured, arguments):
    """Name, least value, and (value, ranks, bytes) of what was measured."""
    wire, small, tls = [], [], []
    for count, peers in measured:
        by_name = {peer.name: peer for peer in peers}
        for size in arguments.sizes:
            us = by_name["asup"].p50(size, "private")
            mpi = by_name["open_mpi"].p50(size, "private") if "open_mpi" in by_name else None
            encrypted = by_name["asup_tls"].p50(size, "private") if "asup_tls" in by_name else None
            if us and encrypted:
                tls.append((us / encrypted, count, size))
            if us and size >= 4 * MIB:
                wire.append((share_of_wire(count, size, arguments.rate, us), count, size))
            elif us and mpi:
                small.append((mpi / us, count, size))
    if arguments.rate == 1e9:
        yield "4-100 MB: 0.95 of the wire", 0.95, wire
    if arguments.rate == 1e10:
        yield "4 hosts, 25 MB: 0.85 of the wire", 0.85, [w for w in wire if w[1:] == (4, 25 * MIB)]
    yield "below 4 MB: Open MPI", 1.0, small
    if arguments.rate == 1e9:
        yield "encrypted: 0.98 of the speed in the clear", 0.98, tls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=rate, default="1gbit", help="of each host's link, both ways (default: 1gbit)")
    parser.add_argument("--ranks", type=ranks, default="2-8", help="one a host (default: 2-8)")
    parser.add_argument("--sizes", type=turns.sizes, default="1K,16K,256K,4M,25M,100M")
    parser.add_argument("--algorithm", help="asup's (default: chosen)")
    parser.add_argument("--build", type=pathlib.Path, default=turns.HERE.parent / "build/release")
    parser.add_argument("--rounds", type=int, help="how often each peer has its turn (default: 3; --quick: 1)")
    parser.add_argument("--deadline", type=float, default=300, help="seconds after which a turn is ended (default: 300)")
    parser.add_argument("--tls", action="store_true", help="asup with encrypted links too")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file too")
    parser.add_argument("--quick", action="store_true", help="one round, for a first look")
    parser.add_argument("--clean", action="store_true", help="remove what a killed run has left, and nothing else")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/hosts.py makes network namespaces, which only root may: run it with sudo")
    for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("unshare", "util-linux")):
        if not shutil.which(tool):
            sys.exit(f"{tool} is not there: apt-get install {package}")
    if arguments.clean:
        return clean()
    if not shutil.which(arguments.build / "asup"):
        sys.exit(f"{arguments.build / 'asup'} is not there: run `make build`, or name another folder with --build")
    if leftovers():
        print("a killed run has left hosts behind; bench/hosts.py --clean removes them", file=sys.stderr)
    programs = turns.peers_in(arguments.build)

    turns.set_signals()
    measured = []
    print(f"all-reduce of floats in place between hosts, {arguments.rate / 1e9:g} Gbit/s both ways, asup's algorithm: "
          f"{arguments.algorithm or 'auto'}")
    with Network(max(arguments.ranks), arguments.rate) as network:
        for count in arguments.ranks:
            peers = measure(network, arguments.build, programs, count, arguments)
            measured.append((count, peers))
            print_table(peers, count, arguments)
            if arguments.json:  # what there is so far: a long run may be broken off
                arguments.json.write_text(json.dumps(list(rows(measured, arguments)), indent=2) + "\n")
    turns.print_goals(goals(measured, arguments))
    return 1 if any(peers[0].failure for _, peers in measured) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
