"""torch.distributed.pipelining on gloo, as a peer of bench/pipeline.py: the GPT of bench_pipeline, one thread a rank.

    RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… pipeline_torch.py SCHEDULE MICRO_BATCHES DEPTH WIDTH

Reads "N" lines, answers each with N step times in microseconds on one line, as bench_pipeline does.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleavedZeroBubble

TOKENS, VOCABULARY, SAMPLES = 128, 256, 16
# ScheduleInterleavedZeroBubble with one stage a rank is ZB-H1.
SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "zb1p": ScheduleInterleavedZeroBubble}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        parts = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).chunk(3, -1)]
        y = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).flatten(-2))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Begin(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(TOKENS, width)

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe.weight


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, x):
        return self.head(self.ln_f(x))


def loss_of(scores, target):
    return F.cross_entropy(scores.flatten(0, -2), target.flatten())


def main():
    name, micro_batches, depth, width = sys.argv[1], *(int(word) for word in sys.argv[2:5])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    heads = max(1, width // 64)
    layers = [Begin(width), *(Block(width, heads) for _ in range(depth)), Head(width)]
    # As many blocks each, the longer stages first; the embedding is on the first rank, and the head on the last.
    ends = [1 + depth // ranks * r + min(r, depth % ranks) for r in range(ranks + 1)]
    own = nn.Sequential(*layers[ends[rank] if rank > 0 else 0:ends[rank + 1] if rank + 1 < ranks else len(layers)])
    data, target = torch.randint(VOCABULARY, (2, SAMPLES, TOKENS)).unbind(0)
    stage = PipelineStage(own, rank, ranks, torch.device("cpu"))
    multi = name == "zb1p"
    schedule = SCHEDULES[name]([stage] if multi else stage, micro_batches, loss_fn=loss_of)
    optimizer = torch.optim.SGD(own.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        arguments = (data,) if rank == 0 else ()
        schedule.step(*arguments, **({"target": target, "losses": []} if rank == ranks - 1 else {}))
        optimizer.step()

    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            step()
            times.append((time.perf_counter() - begin) * 1e6)
        print(*(times or [0, 0]), flush=True)
    sys.stdout.flush()
    os._exit(0)  # gloo's threads would wait for each other


if __name__ == "__main__":
    main()
