#!/usr/bin/env python3
"""Checks that includes point only up the house.

The folders of asup/ form a list. A file may include its own folder and the folders above it; in a
folder that has subfolders, these form a list of the same kind; folders of the core know no torch; files
of one folder do not include each other in a circle. Prints each breach as file:line and what to do, and
exits with 1 if there is one.

Usage: tools/check_layers.py [repository root]
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

# Top of the house first.
CORE = ["base", "kernels", "layout", "net", "collective", "ps", "gossip", "launch", "report",
        "config"]
TORCH = ["tensors", "optim", "sync", "precision", "checkpoint", "parallel", "data", "models", "distribute",
         "train", "bench"]
UMBRELLA = "asup.h"  # what users include: everything but the program
HOUSE = CORE + TORCH + [UMBRELLA, "cli"]

# Subfolders, top first; "." is the folder itself. Others are free.
ROOMS = {
    "net": ["tls", "membership", "transport", "."],
    "collective": ["plan", "algorithms", "verify", "cost", "drawing", ".", "execute", "tuning", "mesh"],
    "ps": ["pace", "table", "."],
    "parallel": ["schedule", "cut", ".", "pipeline", "tensor"],
    "sync": ["model", ".", "compressors", "sharded", "gradients", "averaging", "server"],
    "train": [".", "state", "loop"],
}

# Folders that may include less than all that is above them.
ONLY = {"launch": {"base", "net"}}
STRANGERS = [{"sync", "parallel"}]

TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2)/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


class Include(NamedTuple):
    file: str  # path from the root, as in asup/net/job.h
    line: int
    header: str
    quoted: bool


def includes_of(root, path):
    # A block comment becomes its line breaks, so that line numbers stay true.
    text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), path.read_text())
    file = path.relative_to(root).as_posix()
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        yield Include(file, line, match.group(2), match.group(1) == '"')


def folder_of(path):
    """asup/net/tcp/link.h is in net; asup/asup.h stands for itself."""
    return path.split("/")[1]


def room_of(path):
    """asup/net/transport/tcp/wire.h is in net's room transport; asup/net/job.h is in its room "."."""
    parts = path.split("/")
    return parts[2] if len(parts) > 3 else "."


def breach_of_rooms(include, folder):
    """What is wrong with an include within a folder, or None."""
    rooms, room, target = ROOMS.get(folder), room_of(include.file), room_of(include.header)
    if not rooms:
        return None
    for name in (room, target):
        if name not in rooms:
            return f"{folder}/{name} has no place; give it one in ROOMS of tools/check_layers.py"
    if rooms.index(target) <= rooms.index(room):
        return None
    return (f"{folder}/{room} may not include {folder}/{target} ({include.header}): "
            f"the order is {', '.join(rooms)}; move the shared part up")


def breach(include, root):
    """What is wrong with one include, or None."""
    folder = folder_of(include.file)
    if folder not in HOUSE:
        return (f"{folder} is no folder of the house; give it a place in tools/check_layers.py "
                "and in docs/architecture.md")
    if TORCH_HEADER.match(include.header):
        if folder in CORE:
            return (f"{folder} is part of the core, which knows no torch, yet includes "
                    f"<{include.header}>; move what needs torch to a folder of: {', '.join(TORCH)}")
        return None
    if not include.header.startswith("asup/"):
        beside = (root / include.file).parent / include.header
        if include.quoted and beside.is_file():
            name = (Path(include.file).parent / include.header).as_posix()
            return f'write the whole path: #include "{name}"'
        return None

    target = folder_of(include.header)
    if target == folder:
        return breach_of_rooms(include, folder)
    if target not in HOUSE:
        return f"{include.header} is in no folder of the house"
    if target in ONLY.get(folder, {target}) and HOUSE.index(target) < HOUSE.index(folder):
        if {folder, target} in STRANGERS:
            return (f"{folder} and {target} do not know each other; "
                    "move what both need to a folder above them, or join them in train")
        return None
    allowed = sorted(ONLY.get(folder, HOUSE[:HOUSE.index(folder)]), key=HOUSE.index)
    allowed = [name for name in allowed if {folder, name} not in STRANGERS]
    return (f"{folder} may not include {target} ({include.header}), only {', '.join(allowed + [folder])}; "
            f"move the shared part up, or pass it in through an interface of {folder}")


def circles(includes):
    """Each circle of includes once, as the list of its Include steps."""
    steps = {}
    for include in includes:
        steps.setdefault(include.file, []).append(include)
    done, found = set(), []

    def walk(file, trail):
        for include in steps.get(file, []):
            files = [step.file for step in trail]
            if include.header == file or include.header in files:
                start = len(files) if include.header == file else files.index(include.header)
                found.append(trail[start:] + [include])
            elif include.header not in done:
                walk(include.header, trail + [include])
        done.add(file)

    for file in sorted(steps):
        if file not in done:
            walk(file, [])
    return found


def check(root):
    """All breaches in the tree at `root`, as printable lines."""
    files = sorted(p for p in (root / "asup").rglob("*") if p.suffix in {".h", ".cc"})
    includes = [include for path in files for include in includes_of(root, path)]
    lines = []
    for include in includes:
        problem = breach(include, root)
        if problem:
            lines.append(f"{include.file}:{include.line}: {problem}")
    for circle in circles(includes):
        way = " -> ".join([circle[0].file] + [step.header for step in circle])
        lines.append(f"{circle[0].file}:{circle[0].line}: a circle of includes: {way}; "
                     "declare one of these types forward, or split the header")
    return lines, len(files)


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    lines, files = check(root)
    for line in lines:
        print(line, file=sys.stderr)
    if lines:
        sys.exit(f"layers: {len(lines)} breach(es) in {files} files")
    print(f"layers: {files} files, every include points up the house")


if __name__ == "__main__":
    main()
