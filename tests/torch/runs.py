#!/usr/bin/env python3
"""Whole runs of `gradsum train` and `gradsum eval` compared with PyTorch: a part of `make test-torch`.

    runs.py PROGRAM FOLDER [--runs 15] [--seed N]

Every run starts from weights in a safetensors file as PyTorch's users write it: F32, F16 and BF16 tensors, names with
or without a prefix, with or without metadata. Its data are random images in IDX files.

Training: random models, losses, optimisers, devices and schemes, over two epochs, mostly with a ragged last batch.
PyTorch trains on the same samples in the same order (src/data/order.h), in double precision. The losses and accuracies
of both epochs, and the weights at the end are compared; models.py describes the measure and the limit of errors.
Every update carries the rounding error of each tensor to all others. If the errors of a run grow, they grow in all
tensors, by chance more in one than in another. So the limit is TOLERANCE or, if that is more, AS_TORCH times the
largest error of PyTorch's own f32 anywhere in this run. In three of 700 runs that was more than TOLERANCE; the worst
error was 2.3e-4, in one of these. Runs that diverge are drawn again: there rounding says nothing about either program.

Evaluation: weights with infinities and NaN, so that the logits of some samples contain them too. The predicted classes
(argmax, where a NaN is the largest), as a confusion matrix, and the loss are compared.
"""
import argparse, json, os, random, struct, subprocess, sys

from models import AS_TORCH, FLOOR, MARGIN, TOLERANCE, Kinks, draw_model, error_of, np, torch, F
from files import load_tensors, save_tensors
from network import network
from text import order_of

EPOCHS = 2
SCORES = "train_loss", "train_accuracy", "test_loss", "test_accuracy"
DTYPES = torch.float32, torch.float16, torch.bfloat16


# ---- files ---------------------------------------------------------------------------------------------------------
def save_idx(folder, split, images, labels):
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        with open("%s/%s-%s-ubyte" % (folder, split, name), "wb") as f:
            f.write(struct.pack(">4B%dI" % array.ndim, 0, 0, 8, array.ndim, *array.shape) + array.numpy().tobytes())


# ---- random cases --------------------------------------------------------------------------------------------------
class Case:
    """A model, its initial weights in PyTorch's file format, and data."""

    def __init__(self, folder, text, shape, samples, tests):
        self.folder, self.text, self.shape = folder, text, shape
        os.makedirs(folder, exist_ok=True)
        self.net, (self.classes, *_) = network(text, shape)
        self.train, self.test = self.draw(samples), self.draw(tests)
        self.loss = random.choice(["cross_entropy", "squared_error"])
        self.mean, self.std = random.uniform(-0.2, 0.8), random.uniform(0.1, 1.5)

    def draw(self, count):
        """Images, some of whose pixels are 0, and labels."""
        size = count, *self.shape[1:]
        images = torch.randint(0, 256, size).byte() * (torch.rand(size) < 0.7)
        return images, torch.randint(0, self.classes, (count,)).byte()

    def write(self):
        """Writes files and options; the network gets the weights as the file stores them."""
        prefix = random.choice(["", "model.", "module.", "module.model.", "net.0."])
        told = random.choice(["by file", "by options", "nowhere"])
        tensors = {}
        with torch.no_grad():
            for name, p in self.net.named_parameters():
                tensors[prefix + name] = p.detach().to(random.choice(DTYPES))
                p.copy_(tensors[prefix + name])
        metadata = {"mean": "%.9g" % self.mean, "std": "%.9g" % self.std} if told == "by file" else {}
        save_tensors(self.folder + "/first.safetensors", tensors, metadata or random.choice([None, {"format": "pt"}]))
        save_idx(self.folder, "train", *self.train)
        save_idx(self.folder, "t10k", *self.test)
        options = ["--model", self.text, "--data", self.folder, "--load", self.folder + "/first.safetensors",
                   "--loss", self.loss, "--threads", "1"]
        if told == "by options":
            options += ["--mean=%.9g" % self.mean, "--std=%.9g" % self.std]
        if told == "nowhere":
            self.mean, self.std = 0, 1
        return options

    def inputs(self, images, number):
        x = images.to(number) / 255
        return ((x - np.float32(self.mean)) / np.float32(self.std)).reshape(len(images), *self.shape)

    def losses(self, logits, labels):
        """The loss of each sample."""
        if self.loss == "cross_entropy":
            return F.cross_entropy(logits, labels.long(), reduction="none")
        target = F.one_hot(labels.long(), self.classes).to(logits.dtype)
        return F.mse_loss(logits, target, reduction="none").mean(1)


def gradsum(program, words):
    """The lines of JSON that a command prints."""
    done = subprocess.run([program] + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    if done.returncode != 0:
        return "exit status %d: %s" % (done.returncode, done.stderr.decode().strip())
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


# ---- training ------------------------------------------------------------------------------------------------------
class Training(Case):
    def __init__(self, folder):
        self.devices = random.choice(["cpu", "cl", "cpu,cpu", "cpu,cl", "cpu,cpu,cpu"])
        workers, side = len(self.devices.split(",")), random.choice([3, 5, 8, 12])
        self.batch = random.choice([workers, 5, 8, 16, 23])
        shape = (1, side, random.choice([side, random.randint(1, 12)]))
        samples = self.batch * random.randint(2, 4) + random.randint(1, self.batch)
        super().__init__(folder, draw_model(shape, 160), shape, samples, random.randint(5, 40))
        self.lr, self.momentum = random.choice([0.01, 0.03, 0.1]), random.choice([0, 0.5, 0.9])
        self.decay, passes = random.choice([0, 1e-3, 0.05]), random.randint(1, self.batch // workers)
        self.way = random.choice([[], ["--accumulate=%d" % passes], ["--bucket=1"], ["--sync=ring"], ["--sync=tree"],
                                  ["--sync=ps"], ["--zero=1"], ["--sync=async", "--staleness=0"]])
        self.seed = random.randrange(1 << 53)

    def describe(self):
        return "%s, %d samples, batch %d, lr %g, momentum %g, weight decay %g, %s, %s %s" % (
            self.text, len(self.train[0]), self.batch, self.lr, self.momentum, self.decay, self.loss, self.devices,
            " ".join(self.way))

    def reference(self, initial, number):
        """PyTorch's results: losses and accuracies of each epoch, all weights, and the distance from a kink."""
        self.net.to(number)
        with torch.no_grad():
            for p, start in zip(self.net.parameters(), initial):
                p.copy_(start)
        kinks = Kinks(self.net)
        optimiser = torch.optim.SGD(self.net.parameters(), self.lr, self.momentum, weight_decay=self.decay)
        scores = []

        def forward(samples, which):
            logits = self.net(self.inputs(samples[0][which], number)).reshape(-1, self.classes)
            top = logits.detach().topk(2, 1).values
            kinks.distance(top[:, 0] - top[:, 1], logits.detach())
            losses = self.losses(logits, samples[1][which])
            return losses.sum(), float(losses.detach().sum()), float((logits.argmax(1) == samples[1][which]).sum())

        for epoch in range(1, EPOCHS + 1):
            order, total = order_of(self.seed, epoch, len(self.train[0])), np.zeros(2)
            for at in range(0, len(order), self.batch):
                which = order[at:at + self.batch]
                loss, *score = forward(self.train, which)
                optimiser.zero_grad()
                (loss / len(which)).backward()
                optimiser.step()
                total += score
            with torch.no_grad():
                score = forward(self.test, list(range(len(self.test[0]))))[1:]
            scores.append([*(total / len(order)), *(np.array(score) / len(self.test[0]))])
        for layer in self.net.modules():
            layer._forward_hooks.clear()
        return scores, {n: p.detach().numpy().copy() for n, p in self.net.named_parameters()}, kinks.nearest

    def errors(self, scores, weights, exact):
        """Yields (name, error) compared with `exact`, PyTorch's results in f64."""
        for epoch, (got, want) in enumerate(zip(scores, exact[0])):
            for name, g, w in zip(SCORES, got, want):
                yield "%s of epoch %d" % (name, epoch + 1), abs(g - w) / max(abs(w), 1)
        largest = max(np.abs(w).max() for w in exact[1].values())
        for name, want in exact[1].items():
            yield name, error_of(weights[name], want, max(np.abs(want).max(), FLOOR * largest))

    def diverges(self, scores):
        """Whether the training loss or the test loss has grown."""
        return any(not scores[-1][i] < 2 * scores[0][i] + 1 for i in (0, 2))

    def run(self, program):
        """What is wrong, or ""; None: the case is at a kink, or diverges."""
        options = self.write()
        initial = [p.detach().clone() for p in self.net.parameters()]
        exact, single = (self.reference(initial, number) for number in (torch.float64, torch.float32))
        if exact[2] < MARGIN or self.diverges(exact[0]) or self.diverges(single[0]):
            return None
        words = ["train", "--json", "--devices=" + self.devices, "--epochs=%d" % EPOCHS, "--batch=%d" % self.batch,
                 "--lr=%.9g" % self.lr, "--momentum=%g" % self.momentum, "--weight-decay=%g" % self.decay,
                 "--seed=%d" % self.seed, "--save=%s/last.safetensors" % self.folder]
        lines = gradsum(program, words + self.way + options)
        if isinstance(lines, str):
            return lines
        epochs = [line for line in lines if line["event"] == "epoch"]
        if len(epochs) != EPOCHS:
            return "%d epochs" % len(epochs)
        is_rounded = lambda name: "accuracy" not in name
        torchs = max(error for name, error in self.errors(*single[:2], exact) if is_rounded(name))
        Training.as_torch += AS_TORCH * torchs > TOLERANCE
        scores = [[line[name] for name in SCORES] for line in epochs]
        for name, error in self.errors(scores, load_tensors(self.folder + "/last.safetensors"), exact):
            allowed = max(TOLERANCE, AS_TORCH * torchs) if is_rounded(name) else 1e-7
            Training.worst = max(Training.worst, error)
            if not error <= allowed:
                return "%s: error %.3g, allowed %.3g" % (name, error, allowed)
        return ""


Training.worst, Training.as_torch = 0.0, 0


# ---- evaluation ----------------------------------------------------------------------------------------------------
class Evaluation(Case):
    """A classifier of some pixels: an infinite weight makes its logit infinite, or NaN if the pixel is 0."""

    def __init__(self, folder):
        side, hidden = random.randint(1, 4), random.choice(["", "", "linear 6, tanh, "])
        text = "flatten, %slinear %d" % (hidden, random.choice([2, 3, 10, 17]))
        super().__init__(folder, text, (1, side, side), 3, random.randint(20, 300))
        self.devices = random.choice(["cpu", "cl", "cpu,cpu", "cpu,cl"])
        self.mean = random.choice([0, self.mean])  # with 0 a black pixel becomes 0
        with torch.no_grad():
            last = list(self.net.parameters())[-2:]
            for _ in range(random.choice([0, 1, 2, 4])):
                p = random.choice(last)
                p.view(-1)[random.randrange(p.numel())] = random.choice([np.nan, np.inf, -np.inf, np.inf])

    def describe(self):
        return "%s, %d samples, %s, %s" % (self.text, len(self.test[0]), self.loss, self.devices)

    def run(self, program):
        options = self.write()
        labels = self.test[1]
        with torch.no_grad():
            logits = self.net(self.inputs(self.test[0], torch.float64))
            taken, loss = logits.argmax(1), float(self.losses(logits, labels).mean())
        top = torch.nan_to_num(logits, 0, 1e30, -1e30).topk(2, 1).values
        near = (top[:, 0] - top[:, 1]).abs() < 1e-5
        if bool(near.logical_and(torch.isfinite(logits).all(1)).any()):
            return None
        lines = gradsum(program, ["eval", "--keep-going", "--json", "--confusion", "--devices", self.devices] + options)
        if isinstance(lines, str):
            return lines
        want = np.zeros((self.classes, self.classes))
        np.add.at(want, (labels.numpy(), taken.numpy()), 1)
        end, right = lines[-1], float((taken == labels).double().mean())
        if end["confusion"] != want.tolist():
            return "confusion %s, wanted %s" % (end["confusion"], want.tolist())
        if abs(end["test_accuracy"] - right) > 1e-7:
            return "accuracy %g, wanted %g" % (end["test_accuracy"], right)
        found = end["test_loss"]
        finite = np.isfinite(loss)
        if finite != (found is not None) or finite and abs(found - loss) > TOLERANCE * max(1, abs(loss)):
            return "loss %s, wanted %.9g" % (found, loss)
        Evaluation.strange += not bool(torch.isfinite(logits).all())
        return ""


Evaluation.strange = 0


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("folder")
    options.add_argument("--runs", type=int, default=15)
    options.add_argument("--seed", type=int, default=None)
    o = options.parse_args()
    seed = o.seed if o.seed is not None else int.from_bytes(os.urandom(4), "little")
    print("test-torch: %d trainings and as many evaluations, seed %d" % (o.runs, seed), flush=True)
    random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    wrong = 0
    for kind in Training, Evaluation:
        done = 0
        while done < o.runs:
            case = kind("%s/%s-%d" % (o.folder, kind.__name__.lower(), done))
            found = case.run(o.program)
            done += found is not None
            if found:
                wrong += 1
                print("FAILED: %s: %s: %s" % (case.folder, case.describe(), found))
    print("trainings: worst error %.2e; %d were allowed more than %.0e; logits of %d of %d evaluations are not finite"
          % (Training.worst, Training.as_torch, TOLERANCE, Evaluation.strange, o.runs))
    if wrong:
        sys.exit("test-torch: FAILED; again with: GRADSUM_TORCH_SEED=%d make test-torch" % seed)


if __name__ == "__main__":
    main()
