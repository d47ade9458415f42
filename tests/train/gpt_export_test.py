"""What a run of gpt leaves is GPT-2 as Hugging Face's transformers keeps it: the same names, layout and outputs. Needs
Python's torch."""

import math
import os
import subprocess
import unittest

import torch
from torch.nn import functional as F

import safetensors_file
from harness import Case

OUTPUTS = os.environ["ASUP_OUTPUTS"]
TYPES = {"F32": torch.float32, "I64": torch.int64}


def load_file(path):
    return {name: torch.frombuffer(bytearray(data), dtype=TYPES[dtype]).reshape(shape)
            for name, (dtype, shape, data) in safetensors_file.read(path)[1].items()}


def gpt2(state, tokens, heads):
    """GPT2LMHeadModel.forward(tokens).logits, written out."""
    def get(name):
        return state[f"transformer.{name}"]

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], get(f"{name}.weight"), get(f"{name}.bias"))

    def conv1d(x, name):
        return x @ get(f"{name}.weight") + get(f"{name}.bias")

    def attention(x, name):
        count, length, width = x.shape
        q, k, v = (part.view(count, length, heads, -1).transpose(1, 2)
                   for part in conv1d(x, f"{name}.c_attn").split(width, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(mask, -math.inf).softmax(-1)
        return conv1d((weights @ v).transpose(1, 2).reshape(count, length, width), f"{name}.c_proj")

    def gelu_new(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    x = get("wte.weight")[tokens] + get("wpe.weight")[:tokens.shape[1]]
    for i in range(1 + max(int(name.split(".")[2]) for name in state if ".h." in name)):
        x = x + attention(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn")
        x = x + conv1d(gelu_new(conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ get("wte.weight").T


class GptExport(Case):
    def test_is_gpt2(self):
        with open(self.path("book.txt"), "w") as file:
            file.write("In the beginning was a short text, and it went on.\n" * 60)
        self.call("train", "--model=gpt", "--width=48", "--depth=3", "--heads=4", "--context=20", "--batch=8",
                  f"--data=text:{self.path('book.txt')}", "--optimizer=adamw", "--lr=0.01", "--steps=20",
                  "--workers=2", "--threads=1", f"--out={self.path('run')}")
        self.call("export", self.path("run"), "--format=torch")
        self.call("export", self.path("run"), f"--out={self.path('copy')}", "--format=safetensors")
        tokens = torch.randint(256, (3, 20), generator=torch.Generator().manual_seed(2))
        files = [self.path("input"), self.path("output")]
        safetensors_file.write(files[0], {"input": ("I64", list(tokens.shape), tokens.numpy().tobytes())})
        subprocess.run([OUTPUTS, self.path("run"), *files], check=True)
        expected = load_file(files[1])["output"]
        self.assertEqual(list(expected.shape), [3, 20, 256])
        states = {"torch": torch.load(self.path("run/model.pt"), weights_only=True),
                  "safetensors": load_file(self.path("copy"))}
        for format, state in states.items():
            with self.subTest(format=format):
                torch.testing.assert_close(gpt2(state, tokens, heads=4), expected, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
