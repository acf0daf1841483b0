#!/usr/bin/env python3
"""The loss of a small transformer on a text, trained by PyTorch, to compare with gradsum's.

    text.py [--text FILE] [--seed 1] [--steps 2000] [--threads 1] [--init gradsum|nanogpt]

Prints a line every 200 steps, and at the end the loss on the test windows. The same with gradsum:

    gradsum train --data jargon --model "$(python3 tests/torch/text.py --print-model)" --batch 12 --epochs 9 \\
        --steps 2000 --optimizer adamw --lr 1e-3 --beta2 0.99 --weight-decay 0.1 --clip 1 --warmup-steps 100 \\
        --schedule cosine --final-lr 1e-4 --threads 1 --seed 1

Bytes, vocabulary, windows, shift and order of the windows, rates, and decay of all weights are gradsum's
(src/data/text_set.h, src/data/order.h, src/optim/lr_schedule.h); the model, its gradients, the clipping and AdamW are
PyTorch's. The settings are nanoGPT's for a CPU: 4 layers, 4 heads, width 128, context 64, batch 12, 2,000 steps.
Initial weights have gradsum's distribution, uniform in +-1 / sqrt(inputs), but other values; or nanoGPT's.
"""
import argparse, gzip, math, time

import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
from network import network

CONTEXT, LAYERS, HEADS, WIDTH, BATCH = 64, 4, 4, 128, 12
LR, FINAL_LR, WARMUP, DECAY, BETAS, CLIP = 1e-3, 1e-4, 100, 0.1, (0.9, 0.99), 1.0
ORDER, WINDOWS = 2, 7  # streams of src/core/philox.h


# ---- the order and the shift of an epoch, as in gradsum ------------------------------------------------------------
def philox(key, high, blocks):
    """Philox4x32-10: four words for each block number."""
    low = np.asarray(blocks, np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    high = np.full_like(low, high)
    c = [low & mask, low >> np.uint64(32), high & mask, high >> np.uint64(32)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), b & mask,
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), a & mask]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, 1)


def order_of(seed, epoch, count):
    order = list(range(count))
    words = philox(seed, ORDER << 56 | epoch, range(count // 4 + 1)).reshape(-1)
    for i in range(count - 1, 0, -1):
        j = int(words[i]) * (i + 1) >> 32
        order[i], order[j] = order[j], order[i]
    return order


def shift_of(seed, epoch):
    return int(philox(seed, WINDOWS << 56 | epoch, [0])[0, 0]) * CONTEXT >> 32


# ---- the model -----------------------------------------------------------------------------------------------------
def model_text(vocabulary):
    block = "residual (layer_norm, linear %d, attention %d causal, linear %d), residual (layer_norm, linear %d, gelu, linear %d)"
    return ("embedding %d %d, positions, " % (vocabulary, WIDTH) + (block % (3 * WIDTH, HEADS, WIDTH, 4 * WIDTH, WIDTH) + ", ") *
            LAYERS + "layer_norm, linear %d" % vocabulary)


def transformer(vocabulary, init):
    net = network(model_text(vocabulary), (CONTEXT,))[0].float()
    norms = [id(w) for m in net.modules() if isinstance(m, nn.LayerNorm) for w in m.parameters()]
    for name, w in net.named_parameters():
        if id(w) in norms:
            continue  # 1 and 0
        if init == "gradsum":  # for a bias, as in nn.Linear
            if w.dim() == 2:
                nn.init.uniform_(w, -1 / math.sqrt(w.shape[1]), 1 / math.sqrt(w.shape[1]))
        elif w.dim() == 1:
            nn.init.zeros_(w)
        else:
            into_sum = name.endswith("body.3.weight")
            nn.init.normal_(w, 0, 0.02 / math.sqrt(2 * LAYERS) if into_sum else 0.02)
    return net


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


# ---- a run ---------------------------------------------------------------------------------------------------------
def rate(step, steps):
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    return FINAL_LR + (LR - FINAL_LR) * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP))) / 2


def windows(tokens, shift, which):
    at = (torch.as_tensor(which) * CONTEXT + shift)[:, None] + torch.arange(CONTEXT)
    return tokens[at], tokens[at + 1]


def batches(train, seed):
    count, epoch = (len(train) - CONTEXT) // CONTEXT, 0
    while True:
        epoch += 1
        order, shift = order_of(seed, epoch, count), shift_of(seed, epoch)
        for first in range(0, count, BATCH):
            yield windows(train, shift, order[first : first + BATCH])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--text", default="/usr/share/doc/jargon-text/jargon.txt.gz")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--init", choices=("gradsum", "nanogpt"), default="gradsum")
    p.add_argument("--print-model", action="store_true", help="the model as gradsum's --model, and end")
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    with open(o.text, "rb") as f:
        data = f.read()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    vocabulary = sorted(set(text))
    if o.print_model:
        return print(model_text(len(vocabulary)))
    number = {c: i for i, c in enumerate(vocabulary)}
    tokens = torch.tensor([number[c] for c in text])
    train, test = tokens[: len(tokens) - len(tokens) // 10], tokens[len(tokens) - len(tokens) // 10 :]

    model = transformer(len(vocabulary), o.init)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=BETAS, eps=1e-8, weight_decay=DECAY)
    print("%d parameters, %d characters, %d windows to test" %
          (sum(w.numel() for w in model.parameters()), len(vocabulary), (len(test) - 1) // CONTEXT), flush=True)
    start, batch = time.process_time(), batches(train, o.seed)
    for step in range(o.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, o.steps)
        optimizer.zero_grad()
        loss = loss_of(model, *next(batch))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        if step % 200 == 199:
            print("step %d  train loss %.4f  %.0f s of CPU" % (step + 1, loss, time.process_time() - start), flush=True)
    sums = count = 0
    with torch.no_grad():
        for first in range(0, (len(test) - 1) // CONTEXT, 128):
            which = range(first, min(first + 128, (len(test) - 1) // CONTEXT))
            sums += float(loss_of(model, *windows(test, 0, which))) * len(which)
            count += len(which)
    print("test loss %.4f, perplexity %.4f" % (sums / count, math.exp(sums / count)))


if __name__ == "__main__":
    main()
