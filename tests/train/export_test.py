"""Exported ResNets are torchvision's: the same names, the same outputs. Needs Python's torch."""

import os
import subprocess
import unittest

import torch
from torch import nn

import safetensors_file
from harness import Case

OUTPUTS = os.environ["ASUP_OUTPUTS"]
TYPES = {"F32": torch.float32, "I64": torch.int64}


def convolution(channels, out, kernel, stride=1):
    return nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    """Convolutions of these kernels, around which a shortcut leads."""

    def __init__(self, channels, width, stride, kernels):
        super().__init__()
        self.depth = len(kernels)
        out = width * (4 if self.depth == 3 else 1)
        sizes = [channels] + [width] * (self.depth - 1) + [out]
        at_stride = kernels.index(3)
        for i, kernel in enumerate(kernels):
            setattr(self, f"conv{i + 1}", convolution(sizes[i], sizes[i + 1], kernel,
                                                      stride if i == at_stride else 1))
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(sizes[i + 1]))
        self.downsample = None
        if stride > 1 or channels != out:
            self.downsample = nn.Sequential(convolution(channels, out, 1, stride),
                                            nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i in range(1, self.depth + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = torch.relu(y) if i < self.depth else y
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    """With the names that torchvision gives."""

    def __init__(self, blocks, kernels, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        channels = 64
        for i, count in enumerate(blocks):
            layer = []
            for j in range(count):
                block = Block(channels, 64 * 2**i, 2 if i > 0 and j == 0 else 1, kernels)
                channels = block.get_submodule(f"bn{len(kernels)}").num_features
                layer.append(block)
            setattr(self, f"layer{i + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def make_resnet(name, classes):
    try:
        import torchvision
    except ImportError:
        return (ResNet([2, 2, 2, 2], [3, 3], classes) if name == "resnet18"
                else ResNet([3, 4, 6, 3], [1, 3, 1], classes))
    return getattr(torchvision.models, name)(num_classes=classes)


def load_file(path):
    return {name: torch.frombuffer(bytearray(data), dtype=TYPES[dtype]).reshape(shape)
            for name, (dtype, shape, data) in safetensors_file.read(path)[1].items()}


class Export(Case):
    def outputs(self, weights, images):
        """What asup's model makes of them."""
        paths = [self.path("input"), self.path("output")]
        data = images.numpy().tobytes()
        safetensors_file.write(paths[0], {"input": ("F32", list(images.shape), data)})
        subprocess.run([OUTPUTS, weights, *paths], check=True)
        return load_file(paths[1])["output"]

    def check(self, name):
        run = self.train(name, f"--model={name}", "--width=auto", "--stem=imagenet", "--workers=2",
                         "--synthetic-shape=3x48x48", "--synthetic-samples=32",
                         "--synthetic-test-samples=4", "--synthetic-classes=7", "--batch=8",
                         "--steps=3", "--lr=0.01")
        self.call("export", run.folder, "--format=torch")
        self.call("export", run.path("model.safetensors"), "--format=safetensors",
                  f"--out={self.path('copy')}")
        images = torch.randn(5, 3, 48, 48, generator=torch.Generator().manual_seed(1))
        expected = self.outputs(run.path("model.safetensors"), images)
        states = {"torch": torch.load(run.path("model.pt"), weights_only=True),
                  "safetensors": load_file(self.path("copy"))}
        for format, state in states.items():
            with self.subTest(format=format), torch.no_grad():
                model = make_resnet(name, 7)
                model.load_state_dict(state, strict=True)
                model.eval()
                torch.testing.assert_close(model(images), expected, rtol=1e-4, atol=1e-4)

    def test_resnet18(self):
        self.check("resnet18")

    def test_resnet50(self):
        self.check("resnet50")


if __name__ == "__main__":
    unittest.main()
