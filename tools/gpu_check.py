"""Checks asup on a machine with a GPU, and measures it: a table, and status 1 where a line fails.

    ASUP_PROGRAM=build/gpu/asup python3 tools/gpu_check.py [--quick | --measure] [--only WORDS]

--quick leaves the measurement out, --measure all else; --only takes the lines with these words. Some
lines are worked out at once: what they compare does not depend on time. tools/gpu_check.sh builds
first. Python's standard library only.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["ASUP_PROGRAM"]
FOLDER = tempfile.TemporaryDirectory(prefix="asup-gpu-check-")  # goes with this process
PLACE = FOLDER.name
ENVIRONMENT = dict(os.environ, XDG_CACHE_HOME=PLACE + "/cache")

# A network without kinks that rounding could decide about, so that courses can be compared.
SMALL = ["--model=mlp", "--width=32", "--data=synthetic", "--synthetic-samples=2000",
         "--synthetic-test-samples=200", "--synthetic-shape=1x8x8", "--batch=48", "--steps=50",
         "--threads=2", "--log-every=1", "--seed=7", "--progress=plain", "--no-tensorboard",
         "--checkpoint-every=never"]
USUAL = ["--lr=0.02"]
CONVOLUTIONS = ["--model=resnet18", "--width=auto", "--synthetic-shape=3x32x32", "--steps=10"]
GPU = "--device=cuda"
TOO_LARGE = [GPU, "--workers=1", "--model=resnet50", "--width=auto", "--synthetic-shape=3x224x224",
             "--synthetic-samples=4096", "--batch=4096", "--steps=1", "--synthetic-noise=0"]

# Ways that do what one process does with the whole batch, and ways with a course of their own.
FOLLOWS = {"allreduce": [], "server bsp": ["--sync=server", "--pace=bsp"],
           "local, every step": ["--sync=local", "--every=1"]}
REPEATS = {"local": ["--sync=local", "--every=4"], "slowmo": ["--sync=slowmo", "--every=4"],
           "diloco": ["--sync=diloco", "--every=8", "--outer-overlap=2", "--fragments=2"],
           "gossip": ["--sync=gossip"],
           "merge": ["--sync=server", "--pace=bsp", "--merge=mean", "--every=4"]}
FREE = {"adpsgd": ["--sync=adpsgd"], "server asp": ["--sync=server", "--pace=asp"],
        "server ssp": ["--sync=server", "--pace=ssp"],
        "server adaptive": ["--sync=server", "--pace=adaptive"]}

options = argparse.ArgumentParser()
options.add_argument("--quick", action="store_true")
options.add_argument("--measure", action="store_true")
options.add_argument("--only", default="")
options = options.parse_args()

rows = []
pool = concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4))
begun = []


def tell(what, ok, detail=""):
    rows.append(ok)
    print(f"{'ok  ' if ok else 'FAIL'}  {what:<44} {detail}", flush=True)


def check(what, action, *of):
    """A line of the table, begun now and told by settle(); what goes wrong is its detail."""
    if options.only in what:
        begun.append((what, pool.submit(action, *of)))


def settle():
    for what, line in begun:
        try:
            ok, detail = line.result()
        except Exception as error:  # the other lines are of interest still
            last = str(error).strip().splitlines()[-1:]
            ok, detail = False, last[0][:200] if last else repr(error)
        tell(what, ok, detail)
    begun.clear()


def call(*flags, status=0, **environment):
    done = subprocess.run([PROGRAM, *flags], env=dict(ENVIRONMENT, **environment), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=90)
    if done.returncode != status:
        raise RuntimeError(f"status {done.returncode}: {done.stderr.strip() or done.stdout}")
    return done


numbers = itertools.count()


def fresh():
    return f"{PLACE}/run-{next(numbers)}"


def run_of(folder):
    with open(folder + "/summary.json") as file:
        summary = json.load(file)
    with open(folder + "/metrics.jsonl") as file:
        metrics = [json.loads(line) for line in file]
    return summary, [row for row in metrics if "loss" in row]


def train(*flags, **environment):
    folder = fresh()
    rate = [] if any(flag.startswith("--optimizer") for flag in flags) else USUAL
    done = call("train", *SMALL, *rate, *flags, f"--out={folder}", **environment)
    if "free()" in done.stderr or "Aborted" in done.stderr:
        raise RuntimeError(done.stderr)
    summary, losses = run_of(folder)
    return summary, [row["loss"] for row in losses], done.stdout, folder


def apart(one, other):
    if len(one) != len(other):
        raise RuntimeError(f"{len(one)} and {len(other)} steps")
    return max(abs(a - b) / abs(b) for a, b in zip(one, other))


def within(most, one, other):
    distance = apart(one, other)
    return distance <= most, f"losses apart by {distance:.1e} (at most {most:.0e})"


def same_bits(first, second):
    same = first[0]["weights_sha256"] == second[0]["weights_sha256"] and first[1] == second[1]
    return same, "the same bits twice" if same else "other bits the second time"


def checks():
    tell("program", True, call("version").stdout.strip().replace("\n", ", "))
    alone = train(GPU, "--workers=1")

    def starts():
        line = "on cuda:0" in alone[2] and alone[0]["device"] == "cuda:0"
        peak = alone[0]["peak_device_memory_bytes"]
        return line and peak > 0, f"exits clean; the start line says cuda:0; {peak} bytes there"

    def follows(flags, workers):
        return within(1e-5, train(GPU, f"--workers={workers}", *flags)[1], alone[1])

    def repeats(*flags):
        return same_bits(train(GPU, "--workers=2", *flags), train(GPU, "--workers=2", *flags))

    def as_on_cpus(most, *flags):
        return within(most, train(GPU, *flags)[1], train("--device=cpu", *flags)[1])

    def begins_as_on_cpus():
        one, other = (train(device, "--workers=1", *CONVOLUTIONS)[1]
                      for device in (GPU, "--device=cpu"))
        ok, detail = within(1e-3, one[:3], other[:3])
        return ok, f"{detail} in 3 steps, {apart(one, other):.1e} in {len(one)}"

    def learns(flags):
        losses = train(GPU, "--workers=2", *flags)[1]
        return losses[-1] < 0.5 * losses[0], f"loss {losses[0]:.2f} to {losses[-1]:.2f}"

    def as_one_worker(*flags):
        return within(1e-4, train(GPU, "--workers=2", *flags)[1],
                      train(GPU, "--workers=1", *flags)[1])

    def close_to_f32(*flags):
        return within(0.1, train(GPU, *flags)[1], train(GPU, "--workers=1")[1])

    def resumes_scale():
        flags = [GPU, "--workers=2", "--precision=fp16", "--loss-scale=1e6"]
        whole = train(*flags)
        part = train(*flags, "--stop-at=20")
        call("train", f"--resume={part[3]}")
        again, _ = run_of(part[3])
        skipped = whole[0].get("skipped_steps", 0)
        ok = skipped > 0 and again["weights_sha256"] == whole[0]["weights_sha256"]
        return ok, f"{skipped} steps left out; the bits of a run that was not stopped: {ok}"

    check("one worker", starts)
    check("bf16, 2 ranks, against f32", close_to_f32, "--workers=2", "--precision=bf16")
    check("fp16, 2 ranks, against f32", close_to_f32, "--workers=2", "--precision=fp16",
          "--loss-scale=1024")
    check("bf16, convolutions, 2 ranks, twice", repeats, *CONVOLUTIONS, "--precision=bf16")
    check("bf16, sync-bn, 2 ranks, twice", repeats, *CONVOLUTIONS, "--precision=bf16", "--sync-bn")
    check("bf16 with dgc, 2 ranks", learns,
          ["--precision=bf16", "--compress=dgc", "--compress-density=0.1", "--compress-per=worker"])
    check("fp16, stopped and resumed", resumes_scale)
    check("auto takes the GPU", lambda: (train("--workers=1")[0]["device"] == "cuda:0", ""))
    check("one worker, against the CPU", as_on_cpus, 1e-3, "--workers=1")
    check("convolutions, against the CPU", begins_as_on_cpus)
    check("convolutions, 2 ranks, twice", repeats, *CONVOLUTIONS)
    for name, flags in FOLLOWS.items():
        for workers in 2, 4:
            check(f"{name}, {workers} ranks", follows, flags, workers)
    for name, flags in {**FOLLOWS, **REPEATS}.items():
        check(f"{name}, twice", repeats, *flags)
    for name, flags in REPEATS.items():
        check(f"{name}, against the CPU", as_on_cpus, 1e-3, "--workers=2", *flags)
    for name, flags in FREE.items():
        check(f"{name}, 2 ranks", learns, flags)
    for optimizer in "adam", "lars", "lamb", "asup":
        check(f"{optimizer}, 2 ranks against one", as_one_worker, f"--optimizer={optimizer}")
    check("a CPU and a GPU in one job", mixed, alone[1])
    check("resumes, also on the CPU", resumes)
    check("resumes a GPT with dropout", resumes_dropout)
    check("eval on GPU and CPU", evals, alone[3])
    bad_inputs()
    settle()
    check("not enough memory", refused, ["not enough memory", "smaller batch"], 1, TOO_LARGE)
    settle()


def mixed(alone):
    folder = fresh()
    inner = " ".join([PROGRAM, "train", *SMALL, *USUAL, f"--out={folder}"])
    call("run", "-n", "2", "--", "sh", "-c",
         f"if [ $ASUP_RANK = 0 ]; then d=cuda; else d=cpu; fi; exec {inner} --device=$d")
    summary, losses = run_of(folder)
    ok, detail = within(1e-3, [row["loss"] for row in losses], alone)
    return ok and summary["device"] == "cpu, cuda:0", f"on {summary['device']}; {detail}"


def resumes():
    flags = [GPU, "--workers=2", "--optimizer=adam", "--checkpoint-every=20"]
    whole = train(*flags)
    part = train(*flags, "--stop-at=30")[3]
    call("train", f"--resume={part}")
    same = run_of(part)[0]["weights_sha256"] == whole[0]["weights_sha256"]
    other = train(*flags, "--stop-at=30")[3]
    call("train", f"--resume={other}", "--device=cpu")
    summary, losses = run_of(other)
    near, detail = within(1e-3, [losses[-1]["loss"]], whole[1][-1:])
    bits = "the bits of a run that was not stopped" if same else "other bits"
    return (same and near and (summary["step"], summary["device"]) == (whole[0]["step"], "cpu"),
            f"{bits}; on the CPU {detail} at step {summary['step']}")


def resumes_dropout():
    """A small GPT, whose dropout draws random numbers of the GPU."""
    text = fresh() + ".txt"
    with open(text, "w") as file:
        for i in range(4000):
            file.write(f"{i} and {i * i % 97} are two numbers.\n")
    flags = ["train", "--model=gpt", f"--data=text:{text}", "--depth=2", "--width=32", "--context=32",
             "--heads=2", "--dropout=0.2", "--batch=16", "--steps=20", "--lr=0.01", "--workers=2",
             "--threads=2", "--log-every=1", "--progress=plain", "--no-tensorboard",
             "--eval-every=never", "--checkpoint-every=10", GPU]
    whole, part = fresh(), fresh()
    call(*flags, f"--out={whole}")
    call(*flags, f"--out={part}", "--stop-at=10")
    call("train", f"--resume={part}")
    same = run_of(whole)[0]["weights_sha256"] == run_of(part)[0]["weights_sha256"]
    return same, "the bits of a run that was not stopped" if same else "other bits"


def evals(folder):
    marks = []
    for device in "cuda", "cpu":
        call("eval", folder, f"--device={device}", f"--json={PLACE}/{device}.json")
        with open(f"{PLACE}/{device}.json") as file:
            marks.append(json.load(file)["test_loss"])
    return within(1e-3, marks[:1], marks[1:])


def refused(words, status, flags, **environment):
    done = call("train", *SMALL, *flags, f"--out={fresh()}", status=status, **environment)
    line = done.stderr.strip().splitlines()[-1]
    return all(word in line for word in words), line[:160]


def bad_inputs():
    check("a GPU that is not there", refused, ["device = cuda:99", "no such GPU"], 2,
          ["--device=cuda:99"])
    check("no GPU", lambda: refused(["device = cuda", "no GPU"], 2, [GPU], CUDA_VISIBLE_DEVICES=""))


STEPS, WARM = 60, 20
LARGE = ["--model=resnet50", "--data=synthetic", "--synthetic-shape=3x224x224",
         "--synthetic-classes=100", "--synthetic-noise=0", "--synthetic-samples=20000",
         "--synthetic-test-samples=64", f"--steps={STEPS}", "--log-every=1", "--progress=none",
         "--no-tensorboard", "--checkpoint-every=never", "--eval-every=never", "--tf32", GPU]


def speed(folder):
    """Samples a second, after the first steps."""
    losses = run_of(folder)[1][WARM:]
    return sum(row["samples"] for row in losses) / sum(row["step_s"] for row in losses)


def start(*flags):
    folder = fresh()
    process = subprocess.Popen([PROGRAM, "train", *LARGE, *flags, f"--out={folder}"],
                               env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True)
    return process, folder


def finish(started):
    for process, folder in started:
        _, said = process.communicate(timeout=500)
        if process.returncode != 0:
            raise RuntimeError(said)
    return sum(speed(folder) for _, folder in started)


def measure():
    together, independent = [], []
    for _ in range(3):  # in turn, so that what changes with time changes for both
        together.append(finish([start("--workers=2", "--batch=128")]))
        independent.append(finish([start("--workers=1", "--batch=64", f"--seed={seed}")
                                   for seed in (1, 2)]))
        print(f"      all-reduce {together[-1]:.0f}, two processes {independent[-1]:.0f} samples/s",
              flush=True)
    alone = finish([start("--workers=1", "--batch=64")])
    ratio = statistics.median(a / b for a, b in zip(together, independent))
    tell("ResNet-50, 224x224, 2 ranks by all-reduce", ratio >= 0.93,
         f"{ratio:.3f} of two independent processes (goal 0.93); one alone {alone:.0f} samples/s")
    data = start("--workers=1", "--batch=64", "--model=mlp", "--width=1", "--depth=1")
    print(f"      batches alone come at {finish([data]):.0f} samples/s for each worker", flush=True)


def eager(batch):
    """Samples a second of the same training by PyTorch in Python."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/resnet50_eager.py")
    done = subprocess.run([sys.executable, script, f"--batch={batch}", f"--steps={STEPS}", f"--warm={WARM}"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def measure_bf16(batch=128):
    ours, python = [], []
    for _ in range(3):
        ours.append(finish([start("--workers=1", f"--batch={batch}", "--precision=bf16")]))
        python.append(eager(batch))
        print(f"      bf16: asup {ours[-1]:.0f}, Python {python[-1]:.0f} samples/s", flush=True)
    ratio = statistics.median(a / b for a, b in zip(ours, python))
    tell("ResNet-50, 224x224, bf16 channels-last", ratio >= 0.98,
         f"{ratio:.3f} of PyTorch's eager mode in Python (goal 0.98)")


def main():
    began = time.monotonic()
    if not options.measure:
        checks()
    if not options.quick:
        check("measurement", lambda: (measure() is None, "done"))
        settle()
        check("measurement of bf16", lambda: (measure_bf16() is None, "done"))
        settle()
    print(f"{sum(rows)} of {len(rows)} lines are ok, after {time.monotonic() - began:.0f} s")
    sys.exit(0 if all(rows) else 1)


if __name__ == "__main__":
    main()
