#!/usr/bin/env python3
"""Push-pulls through servers between hosts: what more servers bring where links are the limit.

The hosts are those of hosts.py: network namespaces of this machine whose links are held to --rate, both ways. Every
worker has a host, and every server one of its own, or (`beside`) servers lie on the workers' hosts. All workers push
and pull at once.

`wire` is the share of the wire: the least time in which the fullest link can carry its part of one push-pull of every
worker, over the time. A server's link carries workers / servers of the model each way; beside a worker, a link carries
what the worker sends to other hosts' servers and what its server answers to other hosts' workers. Needs root.

    bench/server_hosts.py [--rate 1gbit] [--workers 4] [--servers 1,2,4] [--sizes 4M,25M] [--json FILE] [--quick]
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


def seconds_of_wire(workers, servers, beside, size, bits_per_second):
    """Of the fullest link, in its fuller direction, for one push-pull of every worker."""
    part = size / servers
    if not beside:
        most = max(size, workers * part)
    else:  # host 0 has a worker and a server: what they send to others
        most = (servers - 1) * part + (workers - 1) * part
    return most * 8 / bits_per_second


def turn(network, program, workers, servers, beside, sizes, pace, deadline):
    """Rows of `asup bench server` on hosts of their own."""
    count = workers if beside else workers + servers
    names = ",".join(network.address(host) for host in range(count))
    with tempfile.NamedTemporaryFile(suffix=".json") as rows:
        command = [program, "run", "--ssh", str(network.agent), "--hosts", names, "-n", str(workers), "--servers",
                   str(servers), "--interface", f"{net.NETWORK}.0/24", "--", program, "bench", "server", "--link", "tcp",
                   "--workers", str(workers), "--servers", str(servers), "--pace", pace, "--sizes",
                   ",".join(map(turns.human, sizes)), "--quick", "--json", rows.name]
        turns.run_together([[str(network.agent), network.address(0), shlex.join(command)]], deadline)
        return {row["bytes"]: row for row in json.load(rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=net.rate, default="1gbit", help="of each host's link, both ways (default: 1gbit)")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", default="1,2,4", help="numbers of servers (default: 1,2,4)")
    parser.add_argument("--sizes", type=turns.sizes, default="4M,25M")
    parser.add_argument("--pace", default="bsp", choices=["bsp", "asp"])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "build/release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=120)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="one round, for a first look")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("server_hosts.py: only root may make network namespaces; run it with sudo")
    turns.set_signals()
    program = str((arguments.build / "asup").resolve())
    os.environ["ASUP_TLS"] = "off"  # the wire is the limit that is compared with
    cases = [(int(text), False) for text in arguments.servers.split(",")] + [(arguments.workers, True)]

    times = {}  # by case and size
    most = arguments.workers + max(servers for servers, _ in cases)
    with net.Network(most, arguments.rate) as network:
        for _ in range(1 if arguments.quick else arguments.rounds):
            for servers, beside in cases:
                rows = turn(network, program, arguments.workers, servers, beside, arguments.sizes, arguments.pace,
                            arguments.deadline)
                for size, row in rows.items():
                    times.setdefault((servers, beside, size), []).append(row["p50_us"])

    print(f"push-pull of floats, {arguments.workers} workers at once, {arguments.pace}, links of "
          f"{arguments.rate / 1e9:g} Gbit/s both ways")
    print(f"{'servers':>22} {'size':>6} {'p50 us':>12} {'GB/s':>7} {'x one':>6} {'wire':>6}")
    table = []
    for (servers, beside, size), rounds in sorted(times.items(), key=lambda item: (item[0][2], item[0][1], item[0][0])):
        us = statistics.median(rounds)
        one = times.get((1, False, size))
        row = {"workers": arguments.workers, "servers": servers, "beside_workers": beside, "bytes": size, "p50_us": us,
               "rate_bit_s": arguments.rate, "pace": arguments.pace,
               "gb_s": 2 * size * arguments.workers / us / 1e3,
               "times_one_server": statistics.median(one) / us if one else None,
               "share_of_wire": seconds_of_wire(arguments.workers, servers, beside, size, arguments.rate) / us * 1e6}
        table.append(row)
        where = f"{servers} beside workers" if beside else f"{servers} on their own hosts"
        print(f"{where:>22} {turns.human(size):>6} {us:12.1f} {row['gb_s']:7.3f} "
              f"{row['times_one_server'] or 0:6.2f} {row['share_of_wire']:6.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
