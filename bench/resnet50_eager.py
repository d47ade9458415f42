#!/usr/bin/env python3
"""Samples a second of a ResNet-50 that PyTorch trains in Python, eagerly, on a GPU in bf16 with channels last.

The peer of `asup train --model resnet50 --precision bf16` in tools/gpu_check.py: the same network on images of
224 x 224 that come from the host's memory, SGD with momentum in one fused kernel.

    bench/resnet50_eager.py [--batch 128] [--steps 60] [--warm 20]
"""

import argparse
import time

import torch
from torch import nn


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            convolution(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            convolution(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            convolution(width, outputs, 1), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if inputs != outputs or stride > 1:
            self.shortcut = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


def resnet50(classes):
    layers = [convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(count):
            layers.append(Block(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def main():
    parser = argparse.ArgumentParser()
    for name, value in ("batch", 128), ("steps", 60), ("warm", 20):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    model = resnet50(100).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, fused=True)
    batches = [(torch.randn(options.batch, 3, 224, 224).pin_memory(),
                torch.randint(100, (options.batch,)).pin_memory()) for _ in range(4)]
    for step in range(options.steps):
        if step == options.warm:
            torch.cuda.synchronize()
            began = time.perf_counter()
        images, targets = (each.cuda(non_blocking=True) for each in batches[step % len(batches)])
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images.to(memory_format=torch.channels_last)), targets)
        loss.backward()
        optimizer.step()
        if step > 0:
            before.item()  # a loop that tells of its losses, without waiting for this step's
        before = loss.detach()
    torch.cuda.synchronize()
    print(options.batch * (options.steps - options.warm) / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
