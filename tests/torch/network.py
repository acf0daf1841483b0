"""Turns a model's text (src/model/model_text.h) into a PyTorch network."""
import re

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body = body
        if shortcut is not None:
            self.shortcut = shortcut

    def forward(self, x):
        return self.body(x) + (self.shortcut(x) if hasattr(self, "shortcut") else x)


class Embedding(nn.Embedding):
    """Token numbers arrive as floats."""

    def forward(self, x):
        return super().forward(x.reshape(len(x), -1).long())


class Positions(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(length, width))

    def forward(self, x):
        return x + self.weight


class Tied(nn.Module):
    """The list hides the embedding, which owns the parameter."""

    def __init__(self, embedding):
        super().__init__()
        self.lender = [embedding]

    def forward(self, x):
        return x @ self.lender[0].weight.T


class Attention(nn.Module):
    def __init__(self, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = x.reshape(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if self.causal:
            score = score.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
        return (score.softmax(-1) @ v).transpose(1, 2).reshape(n, length, width // 3)


def module(words, shape, embedding):
    """The layer that a list of words describes, for an input of this shape, in a model that starts with `embedding`."""
    def pair(word):
        h, _, w = word.partition("x")
        return int(h), int(w or h)

    def option(name, default):
        return pair(words[words.index(name) + 1]) if name in words else default

    op = words[0]
    if op == "linear":
        return nn.Linear(shape[-1], int(words[1]), bias="no_bias" not in words)
    if op == "conv":
        return nn.Conv2d(shape[0], int(words[1]), pair(words[2]), option("stride", 1), option("pad", 0),
                         option("dilation", 1), option("groups", (1, 1))[0], bias="no_bias" not in words)
    if op == "max_pool":
        return nn.MaxPool2d(pair(words[1]), option("stride", pair(words[1])), option("pad", 0))
    if op == "avg_pool":
        return nn.AvgPool2d(pair(words[1]), option("stride", pair(words[1])), option("pad", 0))
    if op == "global_avg_pool":
        # PyTorch keeps (c, 1, 1); gradsum treats that as a vector
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    if op == "gelu":
        return nn.GELU(approximate="tanh" if "tanh" in words else "none")
    if op == "batch_norm":
        return nn.BatchNorm2d(shape[0]) if len(shape) == 3 else nn.BatchNorm1d(shape[0])
    if op == "group_norm":
        return nn.GroupNorm(int(words[1]), shape[0])
    if op == "embedding":
        return Embedding(int(words[1]), int(words[2]))
    if op == "positions":
        return Positions(*shape)
    if op == "tied":
        return Tied(embedding)
    if op == "attention":
        return Attention(int(words[1]), "causal" in words)
    if op == "layer_norm":
        return nn.LayerNorm(shape[-1])
    if op == "dropout":
        return nn.Dropout(float(words[1]))
    # the others have PyTorch's names, except for case: relu is ReLU, softplus 2 is Softplus(2)
    return next(getattr(nn, name) for name in dir(nn) if name.lower() == op)(*map(float, words[1:]))


def parse(tokens, shape, embedding=None):
    """Consumes the tokens of a model text up to its end, '|' or ')'. Returns the network and its output's shape."""
    layers = []
    while tokens and tokens[0] not in "|)":
        if tokens[0] == ",":
            tokens.pop(0)
        if tokens[0] == "residual":
            del tokens[:2]
            branches = [parse(tokens, shape, embedding)[0]]
            if tokens.pop(0) == "|":
                branches.append(parse(tokens, shape, embedding)[0])
                tokens.pop(0)
            layers.append(Residual(*branches))
        else:
            words = []
            while tokens and tokens[0] not in ",|)":
                words.append(tokens.pop(0))
            layers.append(module(words, shape, embedding))
            if words[0] == "embedding":
                embedding = layers[-1]
        with torch.no_grad():
            # not in training mode, where batch_norm would treat the zeros as samples
            shape = tuple(layers[-1].eval()(torch.zeros(1, *shape)).shape[1:])
            layers[-1].train()
    return nn.Sequential(*layers), shape


def network(text, shape):
    """Returns the network of a whole text, in double precision, and the shape of its output."""
    net, shape = parse(re.findall(r"[\w.]+|[,|()]", text), shape)
    return net.double(), shape
