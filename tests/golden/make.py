#!/usr/bin/env python3
"""Make the golden values: PyTorch's f64 results of every case in tests/support/operator_cases.h, of training the models
in tests/support/model_cases.h, and of the updates in tests/support/optimizer_cases.h and tests/support/clip_cases.h.
Run from anywhere; needs PyTorch (made with Debian's python3-torch 1.13):

    /usr/bin/python3 tests/golden/make.py

Inputs come from the formula of values() below, which tests/support/operators.c implements in C. For each case, a file
contains a line with the case, then a line for each tensor:

    NAME COUNT STRIDE CHECKSUM v[0] v[STRIDE] v[2 STRIDE] ...

CHECKSUM is sum_i v[i] c[i] with c = values(COUNT, 99), so that every element is checked, even those not stored.
"""
import os
import re
import sys
import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/../torch")
from network import network

MOST = 96  # stored values of one tensor
X, W, B, DY, LABELS, TARGET, VELOCITY, MEAN, VAR = 1, 2, 3, 4, 5, 6, 7, 8, 9  # salts


def hashed(count, salt):
    """A hash of (i, salt): 32 pseudo-random bits (the end of MurmurHash3)."""
    h = (np.arange(count, dtype=np.uint64) * 2654435761 + salt * 0x9E3779B9) & 0xFFFFFFFF
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ (h >> 16)


def values(count, salt):
    """Multiples of 2^-15 in [-1, 1): exact in f32."""
    return ((hashed(count, salt) >> 16).astype(np.float64) - 32768) / 32768


def away_from_0(count, salt):
    v = values(count, salt)
    return 4 * v + np.where(v < 0, -0.0625, 0.0625)


def distinct(count):
    """No two values closer than 1/64: a permutation, since 7919 is prime."""
    i = np.arange(count, dtype=np.int64)
    return ((i * 7919 + 13) % max(count, 1) - count // 2) / 64.0


def leaf(v, *shape):
    return torch.tensor(v, dtype=torch.float64).reshape(shape).requires_grad_()


def size(*shape):
    return int(np.prod(shape))


def linear(n, k, out, bias):
    x, w = leaf(values(n * k, X), n, k), leaf(values(out * k, W), out, k)
    b = leaf(values(out, B), out) if bias else None
    return F.linear(x, w, b), {"dx": x, "dw": w, "db": b}


def conv2d(n, c, h, w_, out, kh, kw, sh, sw, ph, pw, bias):
    x, w = leaf(values(size(n, c, h, w_), X), n, c, h, w_), leaf(values(size(out, c, kh, kw), W), out, c, kh, kw)
    b = leaf(values(out, B), out) if bias else None
    return F.conv2d(x, w, b, (sh, sw), (ph, pw)), {"dx": x, "dw": w, "db": b}


def conv2d_groups(n, c, h, w_, out, kh, kw, sh, sw, ph, pw, groups, dh, dw, bias):
    x = leaf(values(size(n, c, h, w_), X), n, c, h, w_)
    w = leaf(values(size(out, c // groups, kh, kw), W), out, c // groups, kh, kw)
    b = leaf(values(out, B), out) if bias else None
    return F.conv2d(x, w, b, (sh, sw), (ph, pw), (dh, dw), groups), {"dx": x, "dw": w, "db": b}


def max_pool2d(n, c, h, w, kh, kw, sh, sw, ph, pw):
    x = leaf(distinct(size(n, c, h, w)), n, c, h, w)
    y, index = F.max_pool2d(x, (kh, kw), (sh, sw), (ph, pw), return_indices=True)
    return y, {"dx": x}, {"index": index}


def avg_pool2d(n, c, h, w, kh, kw, sh, sw, ph, pw):
    x = leaf(values(size(n, c, h, w), X), n, c, h, w)
    return F.avg_pool2d(x, (kh, kw), (sh, sw), (ph, pw)), {"dx": x}


def batch_norm(n, c, plane, training):
    x, w, b = leaf(4 * values(n * c * plane, X), n, c, plane), leaf(values(c, W), c), leaf(values(c, B), c)
    mean, var = torch.tensor(values(c, MEAN)), torch.tensor(1.25 + values(c, VAR))
    y = F.batch_norm(x, mean, var, w, b, bool(training), 0.1, float(np.float32(1e-5)))
    return y, {"dx": x, "dw": w, "db": b}


def layer_norm(n, c):
    x, w, b = leaf(4 * values(n * c, X), n, c), leaf(values(c, W), c), leaf(values(c, B), c)
    return F.layer_norm(x, (c,), w, b, float(np.float32(1e-5))), {"dx": x, "dw": w, "db": b}


def embedding(n, rows, c):
    x, w = torch.tensor((hashed(n, X) % rows).astype(np.int64)), leaf(values(rows * c, W), rows, c)
    return F.embedding(x, w), {"dw": w}


def positions(n, count):
    x, w = leaf(values(n * count, X), n, count), leaf(values(count, W), count)
    return x + w, {"dw": w}


def attention(n, length, width, heads, causal):
    x = leaf(values(n * length * 3 * width, X), n, length, 3, heads, width // heads)
    q, k, v = x.permute(2, 0, 3, 1, 4)
    score = q @ k.transpose(-1, -2) / (width // heads) ** 0.5
    if causal:
        score = score.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    return (F.softmax(score, -1) @ v).transpose(1, 2).reshape(n, length, width), {"dx": x}


def attention_cached(n, tokens, past, length, width, heads):
    d = width // heads
    x = torch.tensor(values(n * tokens * 3 * width, X)).reshape(n, tokens, 3, heads, d)
    q, k, v = x.permute(2, 0, 3, 1, 4)
    keys = torch.tensor(values(n * width * length, W)).reshape(n, heads, d, length).transpose(-1, -2)[:, :, :past]
    kept = torch.tensor(values(n * width * length, B)).reshape(n, heads, length, d)[:, :, :past]
    score = q @ torch.cat([keys, k], 2).transpose(-1, -2) / d ** 0.5
    score = score.masked_fill(torch.ones(tokens, past + tokens).triu(past + 1).bool(), float("-inf"))
    y = F.softmax(score, -1) @ torch.cat([kept, v], 2)
    return {"y": y.transpose(1, 2).reshape(n, tokens, width)}


def element_wise(f):
    def of(count, *number):
        x = leaf(away_from_0(count, X), count)
        return f(x, *number), {"dx": x}
    return of


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def softmax_cross_entropy(n, classes, smoothing):
    x = leaf(4 * values(n * classes, X), n, classes)
    labels = torch.tensor((hashed(n, LABELS) % classes).astype(np.int64))
    loss = F.cross_entropy(x, labels, reduction="sum", label_smoothing=smoothing / 100)
    loss.backward()
    correct = (x.argmax(1) == labels).sum()
    return {"y": F.softmax(x, 1), "stats": torch.tensor([loss, correct, n]), "dx": x.grad}


def mean_squared_error(n, k):
    x, t = leaf(values(n * k, X), n, k), torch.tensor(values(n * k, TARGET)).reshape(n, k)
    loss = F.mse_loss(x, t, reduction="sum") / k
    loss.backward()
    correct = (x.argmax(1) == t.argmax(1)).sum()
    return {"stats": torch.tensor([loss, correct, n]), "dx": x.grad}


def sgd_update(count, scale, lr, momentum, decay):
    w = leaf(values(count, W), count)
    optimiser = torch.optim.SGD([w], lr=lr / 1e3, momentum=momentum / 1e3, weight_decay=decay / 1e3)
    for step in range(3):
        w.grad = torch.tensor(values(count, DY + 10 * step)) * (scale / 1e3)
        optimiser.step()
    result = {"w": w}
    if momentum:
        result["v"] = optimiser.state[w]["momentum_buffer"]
    return result


def results(op, arguments):
    """All tensors of a case. Most operators return (y, leaves): their gradients are for dy = values(DY)."""
    r = (globals()[op] if op not in ELEMENT_WISE else element_wise(globals().get(op) or getattr(F, op)))(*arguments)
    if isinstance(r, dict):
        return r
    y, leaves = r[0], r[1]
    y.backward(torch.tensor(values(y.numel(), DY)).reshape(y.shape))
    tensors = {"y": y, **(r[2] if len(r) > 2 else {})}
    tensors.update({name: leaf.grad for name, leaf in leaves.items() if leaf is not None})
    return tensors


def write(file, name, tensor):
    v = tensor.detach().double().reshape(-1).numpy()
    stride = max(1, -(-len(v) // MOST))
    check = float((v * values(len(v), 99)).sum())
    file.write(" ".join([name, str(len(v)), str(stride), "%.9g" % check] + ["%.9g" % e for e in v[::stride]]) + "\n")


# The rows of src/backend.h, and whether the operator takes a parameter. Its function is gelu_tanh above or PyTorch's.
ELEMENT_WISE = {op: kind == "WITH" for kind, op in
                re.findall(r"^    (X|WITH|OWN)\(of, (\w+), ", open(HERE + "/../../src/backend.h").read(), re.M)}


def cases():
    """(operator, its numbers) for all cases."""
    text = open(HERE + "/../support/operator_cases.h").read()
    for op, arguments in re.findall(r"^(?:SMALL|CASE)\((\w+), ([\d, ]+)\)", text, re.M):
        yield op, [int(a) for a in arguments.split(",")]
    sizes = [(int(count), int(number)) for count, number in re.findall(r"\(name, (\d+), (\d+)\)", text)]
    for op, takes_number in ELEMENT_WISE.items():
        for count, number in sizes:
            yield op, [count, number][:1 + takes_number]


def operators():
    files = {}
    for op, arguments in cases():
        if arguments[0] == 0:
            continue  # an empty batch has no values
        if op not in files:
            files[op] = open(HERE + "/" + op + ".txt", "w")
        files[op].write(" ".join(["case", op] + [str(a) for a in arguments]) + "\n")
        for name, tensor in results(op, arguments).items():
            write(files[op], name, tensor)


def trainings():
    """Three steps of SGD from known weights: the first logits, losses and gradients, and the last weights."""
    file = open(HERE + "/model.txt", "w")
    cases = re.findall(r'^MODEL\((\w+), (\d+), (\d+), (\d+), (\d+), (\w+), "(.*)"\)', open(HERE + "/../support/model_cases.h").read(), re.M)
    for name, n, c, h, w, loss_name, text in cases:
        n, shape = int(n), (int(c), int(h), int(w))
        net, out = network(text, shape)
        parameters = dict(net.named_parameters())
        with torch.no_grad():
            for i, p in enumerate(parameters.values()):
                p.copy_(torch.tensor(values(p.numel(), 100 + i) / 4).reshape(p.shape))
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        file.write("case " + name + "\n")
        for step in range(3):
            words = text.split()
            x = values(n * size(*shape), X + 10 * step) if words[0] != "embedding" else \
                hashed(n * size(*shape), X + 10 * step) % int(words[1])
            x = torch.tensor(x.astype(np.float64)).reshape(n, *shape)
            labels = torch.tensor((hashed(n, LABELS + 10 * step) % out[0]).astype(np.int64))
            logits = net(x)
            target = F.one_hot(labels, out[0]).double()
            mean = F.cross_entropy(logits, labels) if loss_name == "GS_SOFTMAX_CROSS_ENTROPY" else F.mse_loss(logits, target)
            optimiser.zero_grad()
            mean.backward()
            if step == 0:
                write(file, "logits", logits)
                write(file, "stats", torch.tensor([n * mean, (logits.argmax(1) == labels).sum(), n]))
                for key, p in parameters.items():
                    write(file, "gradient:" + key, n * p.grad)
            optimiser.step()
        for key, p in {**parameters, **dict(net.named_buffers())}.items():
            if not key.endswith("num_batches_tracked"):
                write(file, key, p)


class Lars:
    """You, Gitman, Ginsburg 2017, algorithm 1; lr is the global rate times the trust coefficient."""

    def __init__(self, parameters, lr, momentum, decay):
        self.parameters, self.lr, self.momentum, self.decay = parameters, lr, momentum, decay
        self.state = {p: {"momentum_buffer": torch.zeros_like(p)} for p in parameters}

    @torch.no_grad()
    def step(self):
        for p in self.parameters:
            v, decay, trust = self.state[p]["momentum_buffer"], 0, 1
            if p.dim() > 1:
                decay = self.decay
                trust = p.norm() / (p.grad.norm() + decay * p.norm())
            v.mul_(self.momentum).add_(trust * (p.grad + decay * p))
            p.sub_(self.lr * v)


class Lamb:
    """You et al. 2020, algorithm 2."""

    def __init__(self, parameters, lr, beta1, beta2, epsilon, decay):
        self.parameters, self.numbers, self.t = parameters, (lr, beta1, beta2, epsilon, decay), 0
        self.state = {p: {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)} for p in parameters}

    @torch.no_grad()
    def step(self):
        lr, beta1, beta2, epsilon, decay = self.numbers
        self.t += 1
        for p in self.parameters:
            m, v = self.state[p]["exp_avg"], self.state[p]["exp_avg_sq"]
            m.copy_(beta1 * m + (1 - beta1) * p.grad)
            v.copy_(beta2 * v + (1 - beta2) * p.grad ** 2)
            r = (m / (1 - beta1 ** self.t)) / (torch.sqrt(v / (1 - beta2 ** self.t)) + epsilon)
            if p.dim() > 1:
                r = r + decay * p
                r = p.norm() / r.norm() * r
            p.sub_(lr * r)


class Lion:
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, parameters, lr, beta1, beta2, epsilon, decay):
        self.parameters, self.numbers = parameters, (lr, beta1, beta2, decay)
        self.state = {p: {"exp_avg": torch.zeros_like(p)} for p in parameters}

    @torch.no_grad()
    def step(self):
        lr, beta1, beta2, decay = self.numbers
        for p in self.parameters:
            m = self.state[p]["exp_avg"]
            c = beta1 * m + (1 - beta1) * p.grad
            p.sub_(lr * (torch.sign(c) + decay * p))
            m.mul_(beta2).add_((1 - beta2) * p.grad)


def torch_optimizer(name, parameters, lr, beta1, beta2, epsilon, decay):
    if name == "nesterov":
        return torch.optim.SGD(parameters, lr=lr, momentum=beta1, weight_decay=decay, nesterov=True)
    if name == "lars":
        return Lars(parameters, lr, beta1, decay)
    if name == "lamb":
        return Lamb(parameters, lr, beta1, beta2, epsilon, decay)
    if name == "lion":
        return Lion(parameters, lr, beta1, beta2, epsilon, decay)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return kind(parameters, lr=lr, betas=(beta1, beta2), eps=epsilon, weight_decay=decay)


VECTORS = {"velocity": "momentum_buffer", "first_moment": "exp_avg", "second_moment": "exp_avg_sq"}


def split(flat, sizes):
    """The parts of a flat array, with these shapes."""
    parts, at = [], 0
    for shape in sizes:
        parts.append(torch.tensor(flat[at:at + size(*shape)]).reshape(shape))
        at += size(*shape)
    return parts


def optimizers():
    """Five updates by each optimiser, from given gradients."""
    file = open(HERE + "/optimizers.txt", "w")
    for line in re.findall(r"^UPDATES\(\d, (.*)\)", open(HERE + "/../support/optimizer_cases.h").read(), re.M):
        name, *numbers = line.split(", ")
        inputs, out, samples, *rates = [float(n) if i > 2 else int(n) for i, n in enumerate(numbers)]
        sizes = [(out, inputs), (out,), (3, out), (3,)]
        count = sum(size(*s) for s in sizes)
        w = [p.requires_grad_() for p in split(values(count, W), sizes)]
        optimizer = torch_optimizer(name, w, *rates)
        for step in range(5):
            for p, dw in zip(w, split(values(count, DY + 10 * step), sizes)):
                p.grad = dw / samples
            optimizer.step()
        file.write("case " + " ".join([name] + numbers) + "\n")
        write(file, "w", torch.cat([p.reshape(-1) for p in w]))
        for vector, theirs in VECTORS.items():
            if theirs in optimizer.state[w[0]]:
                write(file, vector, torch.cat([optimizer.state[p][theirs].reshape(-1) for p in w]))


def clippings():
    """Five updates by SGD, each with a gradient that is first clipped to a given norm."""
    file = open(HERE + "/clip.txt", "w")
    for numbers in re.findall(r"^CLIP\((.*)\)", open(HERE + "/../support/clip_cases.h").read(), re.M):
        inputs, out, samples, lr, momentum, decay, most = [float(n) for n in numbers.split(", ")]
        inputs, out = int(inputs), int(out)
        sizes = [(out, inputs), (out,), (3, out), (3,)]
        count = sum(size(*s) for s in sizes)
        w = [p.requires_grad_() for p in split(values(count, W), sizes)]
        optimizer = torch.optim.SGD(w, lr=lr, momentum=momentum, weight_decay=decay)
        norms = []
        for step in range(5):
            for p, dw in zip(w, split(values(count, DY + 10 * step) * (step + 1), sizes)):
                p.grad = dw / samples
            norms.append(torch.nn.utils.clip_grad_norm_(w, most))
            optimizer.step()
        file.write("case clip " + " ".join(numbers.split(", ")) + "\n")
        write(file, "w", torch.cat([p.reshape(-1) for p in w]))
        write(file, "norms", torch.stack(norms))


if __name__ == "__main__":
    operators()
    trainings()
    optimizers()
    clippings()
