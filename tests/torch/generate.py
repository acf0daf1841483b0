#!/usr/bin/env python3
"""Tokens per second of gradsum and of PyTorch in eager mode, both with a cache of keys and values: the same model with
the same random weights, the same prompt, and always the likeliest token, so that both must write the same text.

    tests/torch/generate.py GRADSUM [--layers 4 --heads 4 --width 128 --context 64 --vocabulary 65]
                            [--length N] [--threads T] [--rounds R]

Prints a line with the medians of R rounds, in which the two alternate, and their ratio. Exit status 1 if the texts
differ."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
a.add_argument("gradsum")
for name, usual in [("layers", 4), ("heads", 4), ("width", 128), ("context", 64), ("vocabulary", 65),
                    ("length", 1000), ("threads", 1), ("rounds", 3)]:
    a.add_argument("--" + name, type=int, default=usual)
o = a.parse_args()
os.environ["OMP_NUM_THREADS"] = str(o.threads)

import torch
import torch.nn.functional as F
from torch import nn
from files import save_tensors

torch.set_num_threads(o.threads)
PROMPT = [1, 2, 3, 5, 8, 13, 21, 34]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(o.width, 3 * o.width), nn.Linear(o.width, o.width)
        self.keys = self.values = None

    def forward(self, x, past):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, o.heads, o.width // o.heads).permute(2, 0, 3, 1, 4)
        if past == 0:
            self.keys = x.new_empty(n, o.heads, o.context, o.width // o.heads)
            self.values = torch.empty_like(self.keys)
        self.keys[:, :, past:past + t], self.values[:, :, past:past + t] = k, v
        k, v = self.keys[:, :, :past + t], self.values[:, :, :past + t]
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        else:
            score = q @ k.transpose(-1, -2) * (o.width // o.heads) ** -0.5
            if t > 1:
                score = score.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
            y = F.softmax(score, -1) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, o.width))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(o.width), nn.LayerNorm(o.width)
        self.attention = Attention()
        self.up, self.down = nn.Linear(o.width, 4 * o.width), nn.Linear(4 * o.width, o.width)

    def forward(self, x, past):
        x = x + self.attention(self.norm1(x), past)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.context, o.width)
        self.blocks = nn.ModuleList([Block() for _ in range(o.layers)])
        self.norm, self.head = nn.LayerNorm(o.width), nn.Linear(o.width, o.vocabulary)

    def forward(self, tokens, past):
        x = self.embedding(tokens) + self.positions.weight[past:past + tokens.shape[1]]
        for block in self.blocks:
            x = block(x, past)
        return self.head(self.norm(x[:, -1]))

    def text(self):
        block = f"residual (layer_norm, linear {3 * o.width}, attention {o.heads} causal, linear {o.width}), " \
                f"residual (layer_norm, linear {4 * o.width}, gelu, linear {o.width})"
        return ", ".join([f"embedding {o.vocabulary} {o.width}, positions"] + [block] * o.layers +
                         [f"layer_norm, linear {o.vocabulary}"])

    def named(self):
        """The parameters under gradsum's names."""
        parts = {"0": self.embedding, "1": self.positions}
        for i, b in enumerate(self.blocks):
            parts.update({f"{2 + 2 * i}.body.0": b.norm1, f"{2 + 2 * i}.body.1": b.attention.qkv,
                          f"{2 + 2 * i}.body.3": b.attention.out, f"{3 + 2 * i}.body.0": b.norm2,
                          f"{3 + 2 * i}.body.1": b.up, f"{3 + 2 * i}.body.3": b.down})
        parts.update({f"{2 + 2 * o.layers}": self.norm, f"{3 + 2 * o.layers}": self.head})
        return {f"{at}.{name}": p.detach() for at, part in parts.items() for name, p in part.named_parameters()}


def save(model, path):
    """Token i is the character U+0100 + i."""
    save_tensors(path, model.named(), {"model": model.text(), "input": f"{o.context}x1x1", "tokens": "chars",
                                       "vocabulary": "".join(character(i) for i in range(o.vocabulary))})


def character(token):
    """Skips the surrogates of UTF-16, which are not characters."""
    return chr(0x100 + token + (0x800 if 0x100 + token >= 0xd800 else 0))


@torch.no_grad()
def torch_text(model):
    """The tokens, and the rate in tokens per second after the first one."""
    window, past, text = list(PROMPT), 0, []
    for i in range(o.length):
        if i == 1:
            begin = time.perf_counter()
        logits = model(torch.tensor([window[past:]]), past)
        past = len(window)
        if past == o.context:  # as in gradsum: the last half is computed again
            window, past = window[o.context - o.context // 2:], 0
        window.append(int(logits.argmax()))
        text.append(window[-1])
    return text, (o.length - 1) / (time.perf_counter() - begin)


def gradsum_text(path):
    prompt = "".join(character(i) for i in PROMPT)
    out = subprocess.run([o.gradsum, "generate", "--load", path, "--prompt", prompt, "--length", str(o.length),
                          "--temperature", "0", "--threads", str(o.threads), "--json"],
                         stdout=subprocess.PIPE, check=True)
    end = json.loads(out.stdout)
    token = {character(i): i for i in range(o.vocabulary)}
    return [token[c] for c in end["texts"][0]], end["tokens_per_s"]


torch.manual_seed(1)
net = Model().eval()
with torch.no_grad():  # larger random weights repeat less
    for p in net.parameters():
        if p.dim() > 1:
            p.mul_(2)
theirs, ours = [], []
with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "model.safetensors")
    save(net, file)
    for _ in range(o.rounds):
        text, rate = torch_text(net)
        same, own = gradsum_text(file)
        theirs.append(rate)
        ours.append(own)
        if text != same:
            at = next(i for i in range(o.length) if text[i] != same[i])
            print(f"the texts differ from token {at} of {o.length} on")
            sys.exit(1)
count = sum(p.numel() for p in net.parameters())
t, g = sorted(theirs)[o.rounds // 2], sorted(ours)[o.rounds // 2]
print(f"{count / 1e6:6.1f} M weights, {o.threads} thread{'s' if o.threads > 1 else ' '}  PyTorch {torch.__version__:12}"
      f" {t:8.1f} tokens/s   gradsum {g:8.1f} tokens/s   {g / t:5.2f} times   {len(set(text))} different tokens")
