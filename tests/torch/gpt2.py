#!/usr/bin/env python3
"""GPT-2 of Hugging Face's transformers: a part of `make test-torch`.

    gpt2.py GRADSUM FOLDER            gradsum loads random weights of transformers, and transformers loads what gradsum
                                      saves: the same logits
    gpt2.py --golden                  write tests/golden/gpt2.txt: the names and shapes of a small GPT-2 of
                                      transformers, and its logits (made with transformers 5.24)

Debian has PyTorch, but not transformers: there tests/model/test_names_gpt2.c compares only with these golden numbers.
The tolerance is 1e-4 of the largest logit. Seen: 7e-7.
"""
import os, sys

try:
    import numpy as np
    import torch
except ImportError as error:
    print("test-torch: gpt2: skipped:", error)
    sys.exit(os.environ.get("GRADSUM_TORCH") == "required")

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, HERE + "/../golden"]
from files import gradsum

TOLERANCE = 1e-4
VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, SEQUENCES = 40, 16, 32, 4, 2, 6
TEXT = ("block add N = linear N std 0.01; block layer = residual (layer_norm, linear %d std 0.02, attention %d causal, "
        "add %d), residual (layer_norm, linear %d std 0.02, gelu tanh, add %d); embedding %d %d std 0.02, "
        "positions std 0.02, %d x layer, layer_norm, tied, flatten"
        % (3 * WIDTH, HEADS, WIDTH, 4 * WIDTH, WIDTH, VOCABULARY, WIDTH, LAYERS))


def transformers_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS,
                                      n_head=HEADS, bos_token_id=0, eos_token_id=0)).eval()


def golden():
    """Weights from the formula of make.py, in the shapes of transformers, and tokens from the same formula."""
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
        """With a rate of 0 the saved weights are the loaded ones."""
        again = self.folder + "/ours.safetensors"
        gradsum(self.program, "train", *self.options(path), "--lr", "0", "--momentum", "0", "--steps", "1", "--batch",
                "3", "--save", again, "--names", "huggingface")
        return again


def compare(c, GPT2LMHeadModel):
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


def main(program, folder):
    try:
        from transformers import GPT2LMHeadModel
    except ImportError:
        print("test-torch: gpt2: skipped: no transformers")
        return
    c = Comparison(program, folder)
    compare(c, GPT2LMHeadModel)
    print("test-torch: gpt2: transformers in both directions; logits of %d sequences differ by at most %.1e of the "
          "largest" % (SEQUENCES, c.worst))


if __name__ == "__main__":
    golden() if sys.argv[1:] == ["--golden"] else main(*sys.argv[1:])
