#!/usr/bin/env python3
"""Random models, trained by gradsum and by PyTorch: `make test-torch`.

    models.py PROGRAM FOLDER [--models 60] [--seed N] [--devices cpu,cl]

A case is a random model text, loss, batch and micro-batch, learning rate, momentum and weight decay. PROGRAM
(tests/torch/models.c) trains all cases in one process for each device, PyTorch once, in double precision. They compare
the logits and all gradients of the first step, and the loss, the number of correct answers and all weights of every
step.

The error of a tensor is the largest difference divided by the largest element of PyTorch's tensor: a sum of many
terms that nearly cancel each other has the rounding error of its terms, not of its own size. For the same reason a
gradient is measured relative to the sum of its samples' contributions, all taken as positive, and a tensor that is
small compared with similar ones in the same model (a bias of one element, say) relative to FLOOR of the largest.

A loss is the difference of numbers as large as the logits; if it is smaller than they are, it is measured by them.

The limit is TOLERANCE: f32 rounds to 6e-8, sums of K terms in any order differ by about sqrt(K) of that, and K is at
most some thousands here, which gives 4e-6; up to 10 layers and 4 updates add to it. A model that magnifies such
differences does so in PyTorch too, by chance more in one tensor than in another: so the limit is at least AS_TORCH
times the largest error of PyTorch's own f32 anywhere in this model, and never more than MOST. A wrong operator is off
by 1e-2 or more: with all gradients of biases 1 % too large, 54 of 60 models fail. In 2,400 models the worst error was
6.6e-6 on cpu and 5.9e-6 on cl; none of 101,260 tensors exceeded TOLERANCE. Learning rates at which the loss grows are
reduced.

At the kinks of relu and max_pool one different bit in the input changes the gradient by 100 %, which says nothing
about either program. So inputs for which PyTorch comes closer to a kink than MARGIN are drawn again.
"""
import argparse, os, random, subprocess, sys, time

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F
    from network import network
except ImportError as error:
    print("test-torch: skipped:", error)
    sys.exit(os.environ.get("GRADSUM_TORCH") == "required")

FLOOR, TOLERANCE, AS_TORCH, MOST, MARGIN = 0.01, 1e-5, 10, 1e-3, 2e-6
STEPS = 4
MOST_NUMBERS = 40000  # limit of a layer's output for the whole batch


# ---- random cases --------------------------------------------------------------------------------------------------
def sized(h, w):
    return str(h) if h == w and random.random() < 0.7 else "%dx%d" % (h, w)


def outputs(size, kernel, stride, pad):
    return (size + 2 * pad - kernel) // stride + 1


class Drawing:
    """A growing model: the texts of its layers, and the shape of the last one's output."""

    def __init__(self, shape, batch):
        self.shape, self.batch, self.layers, self.tensors = shape, batch, [], 0

    def add(self, text, shape):
        if min(shape) < 1 or shape[0] * shape[1] * shape[2] * self.batch > MOST_NUMBERS:
            return False
        self.layers.append(text)
        self.shape = shape
        return True

    def activation(self, chance=0.75):
        if random.random() < chance:
            self.layers.append(random.choice(["relu", "relu", "relu", "tanh", "sigmoid"]))

    def window(self, pads):
        c, h, w = self.shape
        if random.random() < 0.5:
            kh, kw, pad = 3, 3, random.choice([1, 1, 0])
            ph = pw = pad
        else:
            kh, kw = random.randint(1, min(6, h)), random.randint(1, min(6, w))
            ph, pw = (random.randint(0, kh), random.randint(0, kw)) if pads == "any" else (random.randint(0, kh // 2), random.randint(0, kw // 2))
        sh, sw = (1, 1) if random.random() < 0.5 else (random.randint(1, 3), random.randint(1, 3))
        return kh, kw, sh, sw, ph, pw

    def options(self, sh, sw, ph, pw, default):
        text = ""
        if (sh, sw) != default or random.random() < 0.1:
            text += " stride " + sized(sh, sw)
        if ph or pw:
            text += " pad " + sized(ph, pw)
        return text

    def conv(self):
        c, h, w = self.shape
        kh, kw, sh, sw, ph, pw = self.window("any")
        out = random.choice([1, 2, 3, 4, 5, 8, 16, 17, 32])
        text = "conv %d %s%s%s" % (out, sized(kh, kw), self.options(sh, sw, ph, pw, (1, 1)), random.choice(["", "", " no_bias"]))
        if h + 2 * ph >= kh and w + 2 * pw >= kw and self.add(text, (out, outputs(h, kh, sh, ph), outputs(w, kw, sw, pw))):
            self.activation()

    def pool(self):
        c, h, w = self.shape
        if random.random() < 0.4:
            kh = kw = sh = sw = 2
            ph = pw = 0
        else:
            kh, kw, sh, sw, ph, pw = self.window("half")
        if h + 2 * ph < kh or w + 2 * pw < kw:
            return
        text = random.choice(["max_pool ", "max_pool ", "avg_pool "]) + sized(kh, kw) + self.options(sh, sw, ph, pw, (kh, kw))
        self.add(text, (c, outputs(h, kh, sh, ph), outputs(w, kw, sw, pw)))

    def residual(self):
        c, h, w = self.shape
        activation = random.choice(["relu", "tanh", "sigmoid"])
        if random.random() < 0.5:
            self.layers.append("residual (conv %d 3x3 pad 1, %s, conv %d 3x3 pad 1)" % (random.choice([c, 4, 8]), activation, c))
        else:
            out, stride = random.choice([c, 4, 6, 16]), random.choice([1, 2])
            self.add("residual (%s, conv %d 3x3 stride %d pad 1 | conv %d 1x1 stride %d no_bias)" % (activation, out, stride, out, stride),
                     (out, outputs(h, 3, stride, 1), outputs(w, 3, stride, 1)))
        self.activation(0.5)

    def linear(self, out):
        self.add("linear %d%s" % (out, random.choice(["", "", " no_bias"])), (out, 1, 1))


def draw_model(shape, batch):
    d = Drawing(shape, batch)
    for _ in range(random.randint(0, 4)):
        random.choice([d.conv, d.conv, d.conv, d.pool, d.pool, d.residual, lambda: d.layers.append("dropout 0")])()
    if d.shape[1:] != (1, 1) or not d.layers or not d.layers[-1].startswith("linear"):
        if random.random() < 0.3:
            d.add("global_avg_pool", (d.shape[0], 1, 1))
        else:
            d.add("flatten", (d.shape[0] * d.shape[1] * d.shape[2], 1, 1))
    for _ in range(random.randint(0, 2)):
        if random.random() < 0.2:
            d.layers.append("residual (linear %d, tanh)" % d.shape[0] if d.shape[0] <= 300 else "tanh")
        d.linear(random.choice([3, 7, 16, 33, 64, 100, 256]))
        d.activation()
    d.linear(random.randint(2, 12))
    return ", ".join(d.layers)


class Case:
    def __init__(self):
        self.batch = random.choice([1, 2, 3, 7, 8, 16, 31, 32, 64])
        side = random.choice([1, 3, 5, 8, 9, 12, 14, 16, 28])
        self.shape = (random.choice([1, 1, 2, 3, 4, 8, 16]), side, random.choice([side, side, random.randint(1, 20)]))
        while self.batch > 1 and self.batch * np.prod(self.shape) > MOST_NUMBERS:
            self.batch //= 2
        self.micro = random.choice([self.batch, self.batch, random.randint(1, self.batch)])
        self.loss, self.fresh = random.randint(0, 1), random.randint(0, 1)
        self.lr, self.momentum, self.decay = random.choice([0.01, 0.03, 0.1]), random.choice([0, 0.5, 0.9]), random.choice([0, 1e-3, 0.05])
        self.text = draw_model(self.shape, self.batch)
        self.net, self.out = network(self.text, self.shape)

    def line(self):
        return "%d %d %d %d %d %d %d %d %.9g %.9g %.9g %s" % (self.batch, self.micro, *self.shape, self.loss, self.fresh, STEPS,
                                                              self.lr, self.momentum, self.decay, self.text)


# ---- PyTorch -----------------------------------------------------------------------------------------------------
class Kinks:
    """The relative distance of the inputs of relu and max_pool from the points where their gradient jumps."""

    def __init__(self, net):
        self.nearest = 1.0
        for layer in net.modules():
            if isinstance(layer, (nn.ReLU, nn.MaxPool2d)):
                layer.register_forward_hook(self.look)

    def distance(self, gaps, x):
        gaps = gaps[gaps > 0]  # equal numbers are equal in both programs: zeros, or only the bias
        if gaps.numel():
            self.nearest = min(self.nearest, float(gaps.min() / x.abs().max()))

    def look(self, layer, inputs, _):
        x = inputs[0].detach()
        if isinstance(layer, nn.ReLU):
            return self.distance(x.abs(), x)
        pair = lambda v: v if isinstance(v, tuple) else (v, v)
        (ph, pw), kernel = pair(layer.padding), pair(layer.kernel_size)
        planes = F.pad(x.reshape(-1, 1, *x.shape[2:]), (pw, pw, ph, ph), value=-1e9)
        windows = F.unfold(planes, kernel, stride=pair(layer.stride))
        if windows.shape[1] > 1:
            top = windows.topk(2, 1).values
            self.distance(top[:, 0] - top[:, 1], x)


def loss_of(case, logits, labels):
    """The sum over the samples."""
    if case.loss == 0:
        return F.cross_entropy(logits, labels, reduction="sum")
    classes = logits.shape[1]
    return F.mse_loss(logits, F.one_hot(labels, classes).to(logits.dtype), reduction="sum") / classes


def sums_of_magnitudes(case, x, labels):
    """For each parameter the largest element of sum_i |gradient of sample i|."""
    sums = [torch.zeros_like(p) for p in case.net.parameters()]
    for i in range(case.batch):
        loss = loss_of(case, case.net(x[i:i + 1]).reshape(1, -1), labels[i:i + 1])
        for total, gradient in zip(sums, torch.autograd.grad(loss, list(case.net.parameters()))):
            total += gradient.abs()
    return [float(total.max()) for total in sums]


def reference(case, initial, steps, number):
    """PyTorch's results for these inputs, in groups of (name, array), and their distance from a kink."""
    case.net.to(number)
    with torch.no_grad():
        for p, start in zip(case.net.parameters(), initial):
            p.copy_(start)
    kinks = Kinks(case.net)
    names = [name for name, _ in case.net.named_parameters()]
    optimiser = torch.optim.SGD(case.net.parameters(), lr=case.lr, momentum=case.momentum, weight_decay=case.decay)
    result = []
    for step, (x, labels) in enumerate(steps):
        sums = sums_of_magnitudes(case, x.to(number), labels) if step == 0 else None
        logits = case.net(x.to(number)).reshape(case.batch, -1)
        top = logits.detach().topk(2, 1).values
        kinks.distance(top[:, 0] - top[:, 1], logits.detach())
        loss = loss_of(case, logits, labels)
        optimiser.zero_grad()
        loss.backward()
        if step == 0:
            result.append([("logits", logits.detach().numpy())])
            result.append([("gradient of " + n, p.grad.numpy().copy(), least)
                           for n, p, least in zip(names, case.net.parameters(), sums)])
        result.append([("loss %d" % step, loss.detach().reshape(1).numpy(), case.batch * float(logits.detach().abs().max()))])
        result.append([("correct %d" % step, (logits.argmax(1) == labels).sum().double().reshape(1).numpy())])
        result.append([("samples %d" % step, np.array([float(case.batch)]))])
        for p in case.net.parameters():
            p.grad /= case.batch
        optimiser.step()
        result.append([("weights %d: %s" % (step, n), p.detach().numpy().copy()) for n, p in zip(names, case.net.parameters())])
    for layer in case.net.modules():
        layer._forward_hooks.clear()
    return result, kinks.nearest


def draw_inputs(case):
    """PyTorch's initial weights, exact in f32; inputs and labels of each step; its results in f64 and f32. Drawn
    again if they are at a kink."""
    for attempt in range(30):
        initial = [p.detach().float().double() for p in case.net.parameters()]
        steps = [(torch.randn(case.batch, *case.shape), torch.randint(0, case.out[0], (case.batch,))) for _ in range(STEPS)]
        result, nearest = reference(case, initial, steps, torch.float64)
        losses = [group[0][1][0] for group in result if group[0][0].startswith("loss")]
        if not max(losses) < 2 * losses[0] + 1:
            case.lr /= 10
        elif nearest > MARGIN:
            return initial, steps, (result, reference(case, initial, steps, torch.float32)[0]), attempt
        for layer in case.net.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
    return None


# ---- comparison ----------------------------------------------------------------------------------------------------
def error_of(got, want, size):
    """The largest difference relative to `size`; infinite for a NaN."""
    error = np.abs(got.astype(np.float64).reshape(want.shape) - want).max() / size
    return error if np.isfinite(error) else float("inf")


def size_of(tensor, group):
    """The scale for the error of a tensor."""
    name, want, *least = tensor
    return max(np.abs(want).max(), FLOOR * max(np.abs(other[1]).max() for other in group), 1e-30, *least)


def is_whole(name):
    """Numbers that rounding does not affect."""
    return name.startswith(("correct", "samples"))


def largest_error(exact, single):
    """The error of PyTorch's f32."""
    return max(error_of(torchs[1], tensor[1], size_of(tensor, group)) for group, group32 in zip(exact, single)
               for tensor, torchs in zip(group, group32) if not is_whole(tensor[0]))


def errors(group, numbers, at):
    """Yields (name, error) for the tensors of a group, stored in `numbers` from `at` on."""
    for tensor in group:
        name, want, *_ = tensor
        yield name, error_of(numbers[at:at + want.size], want, size_of(tensor, group))
        at += want.size


def run(program, device, folder, cases, results):
    """Returns the number of wrong models on this device."""
    out = os.path.join(folder, "out-" + device)
    command = [program, device, os.path.join(folder, "cases"), os.path.join(folder, "in"), out]
    begin = time.time()
    if subprocess.run(command, timeout=1800).returncode != 0:
        sys.exit("test-torch: FAILED: " + " ".join(command))
    numbers, at = np.fromfile(out, np.float32), 0
    worst, where, tensors, wrong, as_torch = 0.0, "", 0, 0, 0
    for number, (case, (exact, single)) in enumerate(zip(cases, results)):
        bad, most = [], min(MOST, max(TOLERANCE, AS_TORCH * largest_error(exact, single)))
        for group in exact:
            for name, error in errors(group, numbers, at):
                allowed = 0 if is_whole(name) else most
                tensors += 1
                as_torch += error > TOLERANCE
                if error > worst:
                    worst, where = error, "model %d, %s" % (number, name)
                if not error <= allowed:
                    bad.append((name, error, allowed))
            at += sum(tensor[1].size for tensor in group)
        if bad:
            wrong += 1
            print("FAILED: model %d on %s: %s: error %.3g, allowed %.3g (%d tensors are wrong)" % (number, device, *bad[0], len(bad)))
            print("    " + case.line())
    if at != numbers.size:
        sys.exit("test-torch: FAILED: %s wrote %d numbers, wanted %d" % (device, numbers.size, at))
    print("%-4s %d models, %d tensors, %.0f s: worst error %.2e (%s); %d tensors were above %.0e" %
          (device, len(cases), tensors, time.time() - begin, worst, where, as_torch, TOLERANCE), flush=True)
    return wrong


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("folder")
    options.add_argument("--models", type=int, default=60)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--devices", default="cpu,cl")
    o = options.parse_args()
    seed = o.seed if o.seed is not None else int.from_bytes(os.urandom(4), "little")
    print("test-torch: PyTorch %s, %d models, seed %d" % (torch.__version__, o.models, seed), flush=True)
    random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    os.makedirs(o.folder, exist_ok=True)
    cases, results, again, given_up, begin = [], [], 0, 0, time.time()
    with open(os.path.join(o.folder, "cases"), "w") as lines, open(os.path.join(o.folder, "in"), "wb") as numbers:
        while len(cases) < o.models:
            case = Case()
            drawn = draw_inputs(case)
            if drawn is None:
                given_up += 1
                continue
            initial, steps, result, attempts = drawn
            again += attempts
            cases.append(case)
            results.append(result)
            lines.write(case.line() + "\n")
            for p in initial:
                p.float().numpy().tofile(numbers)
            for x, labels in steps:
                x.numpy().tofile(numbers)
                labels.int().numpy().tofile(numbers)
    print("drawn in %.0f s; inputs drawn again %d times, %d models given up, because of kinks" % (time.time() - begin, again, given_up), flush=True)
    if sum(run(o.program, device, o.folder, cases, results) for device in o.devices.split(",")):
        sys.exit("test-torch: FAILED; again with: GRADSUM_TORCH_SEED=%d make test-torch" % seed)


if __name__ == "__main__":
    main()
