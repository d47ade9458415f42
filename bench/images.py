#!/usr/bin/env python3
"""Images a second of asup's loader and of torchvision's with PyTorch's DataLoader, from the same JPEG
files with as many workers: decode, RandomResizedCrop, flip, normalise, in batches of 64.

Both take turns over the first 1024 files, several rounds; figures are medians. torchvision is that of
--python, a Python with torch and torchvision; pictures are made where --data names none.

    bench/images.py --python VENV/bin/python [--data DIR] [--workers 2] [--rounds 5]
                    [--build build/release] [--json FILE]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 1024  # files, as `asup bench images` takes them

# Answers each line on its standard input with the images a second of one pass over the files.
PEER = r"""
import sys, time, torch
try:
    import torchvision
except RuntimeError:  # its compiled part is for another build of torch; transforms do not need it
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision
from torchvision import datasets, transforms
folder, workers, size, most = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(1)
data = datasets.ImageFolder(folder + "/train", transforms.Compose([
    transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))
data = torch.utils.data.Subset(data, range(min(len(data), most)))
loader = torch.utils.data.DataLoader(data, batch_size=64, num_workers=workers, shuffle=True,
                                     persistent_workers=True)
for batch in loader:  # workers start
    pass
print("ready", torchvision.__version__, flush=True)
for line in sys.stdin:
    count, began = 0, time.perf_counter()
    for images, _ in loader:
        count += len(images)
    print(count / (time.perf_counter() - began), flush=True)
"""


def of_asup(program, folder, workers, size, rows):
    """Of its last row: all threads, by the clock."""
    subprocess.run([program, "bench", "images", "--data", folder, "--threads", str(workers),
                    "--size", str(size), "--quick", "--json", rows],
                   check=True, stdout=subprocess.DEVNULL)
    with open(rows) as file:
        return json.load(file)[-1]["images_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--data")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--json")
    flags = parser.parse_args()
    program = os.path.join(flags.build, "asup")
    with tempfile.TemporaryDirectory() as place:
        folder = flags.data
        if not folder:
            folder = os.path.join(place, "pictures")
            subprocess.run([program, "bench", "images", "--quick", "--keep", folder], check=True,
                           stdout=subprocess.DEVNULL)
        peer = subprocess.Popen([flags.python, "-c", PEER, folder, str(flags.workers), str(flags.size),
                                 str(MOST)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        ready = peer.stdout.readline().split()
        if not ready:
            sys.exit(f"{flags.python}: torchvision does not run there")
        ours, theirs = [], []
        for _ in range(flags.rounds):
            ours.append(of_asup(program, folder, flags.workers, flags.size,
                                os.path.join(place, "rows.json")))
            peer.stdin.write("go\n")
            theirs.append(float(peer.stdout.readline()))
        peer.stdin.close()
        peer.wait()
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"{flags.workers} workers, {flags.size} x {flags.size}, medians of {flags.rounds} rounds")
    print(f"  asup                {a:10.1f} images/s")
    print(f"  torchvision {ready[1]:<8}{b:10.1f} images/s")
    print(f"  ratio               {a / b:10.2f}")
    if flags.json:
        with open(flags.json, "w") as file:
            json.dump({"workers": flags.workers, "size": flags.size, "asup": ours,
                       "torchvision": theirs, "ratio": a / b}, file, indent=1)


if __name__ == "__main__":
    main()
