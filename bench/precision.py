#!/usr/bin/env python3
"""What training in 16 bits gains: samples a second of `asup train --precision bf16` beside fp32.

Two workers with a thread each train on synthetic images, and a GPT on a text of numbers, by turns in each precision;
the ratio is the median over the turns. On processors that multiply bf16 by themselves (AMX, AVX512-BF16, most of
ARM's newer ones) it is a few times as fast; elsewhere it is much slower, and --steps 2 is enough to see it. The MLP
has batches of 256 samples a worker, and of 32, where casting its weights costs more than multiplying by them.

    bench/precision.py [--precision bf16] [--models resnet18,mlp,mlp-64,gpt] [--turns 3] [--steps 9] [--workers 2]
                       [--device cpu] [--build build/release] [--json FILE]
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
SYNTHETIC = "--data synthetic --synthetic-noise 0 --synthetic-samples 2048 --synthetic-test-samples 64"
MODELS = {
    "resnet18": f"--model resnet18 --synthetic-shape 3x32x32 --batch 64 {SYNTHETIC}",
    "mlp": f"--model mlp --width 4096 --depth 3 --synthetic-shape 1x64x64 --batch 512 {SYNTHETIC}",
    "mlp-64": f"--model mlp --width 4096 --depth 3 --synthetic-shape 1x64x64 --batch 64 {SYNTHETIC}",
    "gpt": "--model gpt --depth 4 --width 256 --context 128 --optimizer adamw --data text:TEXT --batch 16",
}
COMMON = ("--threads 1 --log-every 1 --progress none --no-tensorboard --checkpoint-every never "
          "--eval-every never")


def speed(options, folder, model, precision):
    """Samples a second after the first steps, and how the model was computed."""
    out = folder / f"{model}-{precision}"
    flags = f"{MODELS[model]} {COMMON}".replace("TEXT", str(folder / "text.txt")).split()
    done = subprocess.run([options.build / "asup", "train", *flags, f"--precision={precision}", f"--out={out}",
                           f"--steps={options.steps}", f"--workers={options.workers}", f"--device={options.device}"],
                          env=dict(os.environ, XDG_CACHE_HOME=str(folder)), stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, text=True)
    if done.returncode != 0:
        sys.exit(f"bench/precision.py: {done.stderr.strip()}")
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "loss" in row][options.steps // 3:]
    path = json.loads((out / "choices.json").read_text())["compute_path"]
    return sum(row["samples"] for row in rows) / sum(row["step_s"] for row in rows), path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=["bf16", "fp16"], default="bf16")
    parser.add_argument("--models", default=",".join(MODELS))
    for name, value in ("turns", 3), ("steps", 9), ("workers", 2):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    for model in options.models.split(","):
        if model not in MODELS:
            sys.exit(f"bench/precision.py: --models {model}: there is {', '.join(MODELS)}")
    if options.turns < 1 or options.steps < 2:
        sys.exit("bench/precision.py: --turns: 1 is the least; --steps: 2")
    rows = []
    with tempfile.TemporaryDirectory(prefix="asup-precision-") as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text("".join(f"{i} and {i * i % 97} are two numbers.\n" for i in range(40_000)))
        print(f"{'model':<10} {'fp32':>10} {options.precision:>10} {'ratio':>7}  samples/s, computed by")
        for model in options.models.split(","):
            turns = [[speed(options, folder, model, precision) for precision in ("fp32", options.precision)]
                     for _ in range(options.turns)]
            ratio = statistics.median(shorter[0] / exact[0] for exact, shorter in turns)
            exact, shorter = (statistics.median(turn[i][0] for turn in turns) for i in (0, 1))
            paths = [turns[-1][i][1] for i in (0, 1)]
            rows.append({"model": model, "fp32": exact, options.precision: shorter, "ratio": ratio, "paths": paths})
            print(f"{model:<10} {exact:>10.1f} {shorter:>10.1f} {ratio:>7.2f}  {paths[0]}; {paths[1]}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"workers": options.workers, "device": options.device, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
