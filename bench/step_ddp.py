"""One process of bench/step.py: what bench_step does, by PyTorch's DistributedDataParallel on gloo.

    step_ddp.py ddp|ddp_static|ddp_bf16|ddp_fp16|ddp_powersgd|independent resnet18|mlp onednn|native
"""

import sys
import time
import warnings

import torch
import torch.distributed
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook


class Block(nn.Module):
    """A basic residual block, as in bench_step's ResNet-18."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(y)) + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)
    )


def bf16_hook(group, bucket):
    """DDP allows its own on NCCL alone; gloo adds up bf16 as well."""
    return default_hooks._compress_hook(torch.bfloat16, group, bucket)


def main():
    peer, name, path = sys.argv[1:]
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = path == "onednn"
    torch.manual_seed(1)
    if name == "resnet18":
        model, x, y = resnet18(), torch.randn(8, 3, 64, 64), torch.randint(1000, (8,))
    else:
        model, x, y = mlp(), torch.randn(32, 4096, 1, 1), torch.randint(4096, (32,))
    if peer != "independent":
        torch.distributed.init_process_group("gloo")
        warnings.simplefilter("ignore", FutureWarning)  # newer torch has another name for broadcast_buffers
        # As asup does by default: statistics of BatchNorm stay on their rank, gradients are in their buckets.
        # PowerSGD's hook has several calls for a bucket, whose order gloo's ranks do not agree on with several buckets.
        size = {"bucket_cap_mb": 4096} if peer == "ddp_powersgd" else {}
        model = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True, **size,
                                                    static_graph=peer == "ddp_static")
        if peer == "ddp_bf16":
            model.register_comm_hook(None, bf16_hook)
        elif peer == "ddp_fp16":
            model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif peer == "ddp_powersgd":
            state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
            model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, fused=True)
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            times.append((time.perf_counter() - start) * 1e6)
        print(*times, flush=True)


main()
