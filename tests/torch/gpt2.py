#!/usr/bin/env python3
"""GPT-2 with the names of Hugging Face: a part of `make test-torch`.

    gpt2.py GRADSUM FOLDER            random weights, loaded and saved by gradsum: the same logits, and the same
                                      tensors back
    gpt2.py --golden                  write tests/golden/gpt2.txt: the names and shapes of a small GPT-2 of
                                      transformers, and its logits (made with transformers 5.24)

Debian has PyTorch, but not transformers, so the network is written here by hand, after Radford et al. (2019). Where
transformers is installed, it is compared too, in both directions. Allowed is 1e-4 of the largest logit. Seen: 7e-7.
"""
import os, subprocess, sys

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print("test-torch: gpt2: skipped:", error)
    sys.exit(os.environ.get("GRADSUM_TORCH") == "required")

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, HERE + "/../golden"]
from files import gradsum, load_tensors, save_tensors

TOLERANCE = 1e-4
VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, SEQUENCES = 40, 16, 32, 4, 2, 6
TEXT = ("block add N = linear N std 0.01; block layer = residual (layer_norm, linear %d std 0.02, attention %d causal, "
        "add %d), residual (layer_norm, linear %d std 0.02, gelu tanh, add %d); embedding %d %d std 0.02, "
        "positions std 0.02, %d x layer, layer_norm, tied, flatten"
        % (3 * WIDTH, HEADS, WIDTH, 4 * WIDTH, WIDTH, VOCABULARY, WIDTH, LAYERS))


def shapes(width=WIDTH):
    """As transformers has them: linear layers are (in, out)."""
    yield "wte.weight", (VOCABULARY, width)
    yield "wpe.weight", (CONTEXT, width)
    for i in range(LAYERS):
        for name, out in (("ln_1", None), ("attn.c_attn", 3 * width), ("attn.c_proj", width), ("ln_2", None),
                          ("mlp.c_fc", 4 * width), ("mlp.c_proj", width)):
            inputs = 4 * width if name == "mlp.c_proj" else width
            yield "h.%d.%s.weight" % (i, name), (inputs, out) if out else (width,)
            yield "h.%d.%s.bias" % (i, name), (out or width,)
    yield "ln_f.weight", (width,)
    yield "ln_f.bias", (width,)


def by_hand(w, tokens):
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"])

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    n, length = tokens.shape
    x = w["wte.weight"][tokens] + w["wpe.weight"][:length]
    past = torch.ones(length, length).tril().bool()
    for i in range(LAYERS):
        h = "h.%d." % i
        q, k, v = [part.reshape(n, length, HEADS, -1).transpose(1, 2)
                   for part in linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(WIDTH, -1)]
        score = (q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).masked_fill(~past, float("-inf"))
        y = (score.softmax(-1) @ v).transpose(1, 2).reshape(n, length, WIDTH)
        x = x + linear(y, h + "attn.c_proj")
        x = x + linear(F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh"), h + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def transformers_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS,
                                      n_head=HEADS, bos_token_id=0, eos_token_id=0)).eval()


def golden():
    """Weights by the formula of make.py, in the shapes of transformers; tokens likewise."""
    from make import hashed, values, write
    model = transformers_gpt2().double()
    parameters = dict(model.transformer.named_parameters())
    tokens = torch.tensor((hashed(SEQUENCES * CONTEXT, 1) % VOCABULARY).astype(np.int64)).reshape(-1, CONTEXT)
    with open(HERE + "/../golden/gpt2.txt", "w") as out:
        out.write("case names_and_shapes\n")
        with torch.no_grad():
            for i, (name, p) in enumerate(parameters.items()):
                p.copy_(torch.tensor(values(p.numel(), 100 + i) / 4).reshape(p.shape))
                out.write("%s %s\n" % (name, ",".join(map(str, p.shape))))
            out.write("case logits\n")
            write(out, "logits", model(tokens).logits)


class Comparison:
    def __init__(self, program, folder):
        os.makedirs(folder, exist_ok=True)
        self.program, self.folder, self.worst = program, folder, 0
        random = np.random.default_rng(1)
        self.tokens = random.integers(0, VOCABULARY, (SEQUENCES, CONTEXT))
        for split in "train", "test":
            np.save("%s/%s-images.npy" % (folder, split), self.tokens.astype(np.float32))
            np.save("%s/%s-labels.npy" % (folder, split), np.arange(SEQUENCES))

    def options(self, path):
        return ["--model", TEXT, "--data", self.folder, "--load", path]

    def logits(self, what, path, wanted):
        out = self.folder + "/logits.npy"
        gradsum(self.program, "predict", *self.options(path), "-o", out)
        error = np.abs(np.load(out).reshape(wanted.shape) - wanted.numpy()).max() / np.abs(wanted.numpy()).max()
        self.worst = max(self.worst, error)
        if not error < TOLERANCE:
            sys.exit("gpt2.py: %s: logits differ by %g of the largest, allowed is %g" % (what, error, TOLERANCE))

    def saved(self, path):
        """A rate of 0: what is saved is what was loaded."""
        again = self.folder + "/ours.safetensors"
        gradsum(self.program, "train", *self.options(path), "--lr", "0", "--momentum", "0", "--steps", "1", "--batch",
                "3", "--save", again, "--names", "huggingface")
        return again

    def refused(self, what, tensors, message):
        path = self.folder + "/wrong.safetensors"
        save_tensors(path, tensors)
        run = subprocess.run([self.program, "predict", *self.options(path), "-o", self.folder + "/refused.npy"],
                             capture_output=True, text=True)
        if run.returncode == 0 or message not in run.stderr:
            sys.exit("gpt2.py: %s: wanted '%s', got '%s'" % (what, message, run.stderr))


def hand_written(c):
    torch.manual_seed(1)
    w = {name: torch.randn(shape) * 0.2 + ("ln" in name and "weight" in name) for name, shape in shapes()}
    theirs = c.folder + "/theirs.safetensors"
    tokens = torch.tensor(c.tokens)
    wanted = by_hand(w, tokens)
    mask = {"h.%d.attn.bias" % i: torch.ones(1, 1, CONTEXT, CONTEXT).tril() for i in range(LAYERS)}
    mask.update({"h.%d.attn.masked_bias" % i: torch.tensor(-1e4) for i in range(LAYERS)})
    head = {"lm_head.weight": w["wte.weight"]}
    prefixed = {"transformer." + k: v for k, v in {**w, **mask}.items()}
    longer = {**w, "wpe.weight": torch.cat([w["wpe.weight"], torch.randn(5, WIDTH)])}
    for what, tensors in ("names", w), ("buffers", {**w, **mask}), ("prefix", {**prefixed, **head}), ("longer", longer):
        save_tensors(theirs, tensors)
        c.logits(what, theirs, wanted)
    saved = load_tensors(c.saved(theirs))
    if list(saved) != list(w) or any(not np.array_equal(saved[k], w[k].numpy()) for k in w):
        sys.exit("gpt2.py: what is saved is not what was loaded")
    half = {k: (v.numpy().view(np.uint32) & 0xffff0000).view(np.float32) for k, v in w.items()}
    save_tensors(theirs, {k: torch.tensor(v).bfloat16() for k, v in half.items()})
    c.logits("BF16", theirs, by_hand({k: torch.tensor(v) for k, v in half.items()}, tokens))
    c.refused("another output layer", {**w, "lm_head.weight": w["wte.weight"] + 1}, "lm_head.weight differs from wte")
    c.refused("another width", {k: torch.zeros(s) for k, s in shapes(16)}, "wte.weight is (40,16) in")
    c.refused("not transposed", {**w, "h.0.mlp.c_fc.weight": w["h.0.mlp.c_fc.weight"].T},
              "h.0.mlp.c_fc.weight is (128,32) in")
    return "by hand"


def transformers(c):
    try:
        from transformers import GPT2LMHeadModel
    except ImportError:
        return "transformers is not there"
    torch.manual_seed(2)
    model = transformers_gpt2()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
        wanted = model(torch.tensor(c.tokens)).logits
    for what, part in ("GPT2LMHeadModel", model), ("GPT2Model", model.transformer):
        part.save_pretrained(c.folder + "/" + what)
        c.logits(what, c.folder + "/" + what + "/model.safetensors", wanted)
    ours = c.saved(c.folder + "/GPT2Model/model.safetensors")
    os.replace(ours, c.folder + "/GPT2Model/model.safetensors")
    with torch.no_grad():
        back = GPT2LMHeadModel.from_pretrained(c.folder + "/GPT2Model").eval()(torch.tensor(c.tokens)).logits
    if not torch.allclose(back, wanted, rtol=0, atol=1e-6):
        sys.exit("gpt2.py: transformers gets other logits from what gradsum saved: %g"
                 % (back - wanted).abs().max())
    return "transformers in both directions"


def main(program, folder):
    c = Comparison(program, folder)
    how = [hand_written(c), transformers(c)]
    print("test-torch: gpt2: %s; logits of %d sequences differ by at most %.1e of the largest"
          % (", ".join(how), SEQUENCES, c.worst))


if __name__ == "__main__":
    golden() if sys.argv[1:] == ["--golden"] else main(*sys.argv[1:])
