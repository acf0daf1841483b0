#!/usr/bin/env python3
"""resnet20 on colour images, trained by PyTorch with the recipe of `make accuracy` (accuracy.sh), on the same bytes.

    accuracy_torch.py LIBRARY [--seed 1] [--epochs 10] [--threads 1] [--compile]

LIBRARY is libgradsum.so, which makes colour-fashion. The model, its initial values, the scaling of the bytes, the
effect of crops and flips, the optimiser and the schedule are those of

    gradsum train --model resnet20 --data colour-fashion --epochs 10 --lr 0.1 --weight-decay 1e-4 --schedule cosine \\
        --augment crop:4,flip

The random numbers are PyTorch's own. Prints the test accuracy after each epoch; the last line is the result.
"""
import argparse, ctypes, math, os, sys, time

import numpy as np
import torch
import torch.nn.functional as F
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "torch"))
from peers import network

p = argparse.ArgumentParser()
p.add_argument("library", help="libgradsum.so")
p.add_argument("--seed", type=int, default=1)
p.add_argument("--epochs", type=int, default=10)
p.add_argument("--batch", type=int, default=128)
p.add_argument("--threads", type=int, default=1)
p.add_argument("--compile", action="store_true")
a = p.parse_args()
torch.set_num_threads(a.threads)
torch.manual_seed(a.seed)
draw = np.random.default_rng(a.seed)
library = ctypes.CDLL(a.library)
library.gs_dataset_count.restype = ctypes.c_size_t
library.gs_message.restype = ctypes.c_char_p


def check(status):
    if status != 0:
        sys.exit(library.gs_message().decode())


def read(split):
    """All images and labels of colour-fashion, made by gradsum's library."""
    data = ctypes.c_void_p()
    check(library.gs_dataset_load(b"colour-fashion", split, ctypes.byref(data)))
    count = library.gs_dataset_count(data)
    images, labels = np.empty((count, 3, 32, 32), np.uint8), np.empty(count, np.int32)
    check(library.gs_dataset_gather(data, None, ctypes.c_size_t(0), ctypes.c_size_t(count),
                                    images.ctypes.data_as(ctypes.c_void_p), labels.ctypes.data_as(ctypes.c_void_p)))
    return images, torch.from_numpy(labels.astype(np.int64))


def augmented(pictures):
    """crop:4, then flip: padding is the byte 0."""
    padded = np.zeros((len(pictures), 3, 40, 40), np.uint8)
    padded[:, :, 4:36, 4:36] = pictures
    out = np.empty_like(pictures)
    for i, (y, x, flip) in enumerate(zip(*draw.integers(0, 9, (2, len(pictures))), draw.integers(0, 2, len(pictures)))):
        window = padded[i, :, y:y + 32, x:x + 32]
        out[i] = window[:, :, ::-1] if flip else window
    return out


train, train_labels = read(0)
test, test_labels = read(1)
scaled = train.astype(np.float32) / 255
mean, std = (torch.tensor(f(scaled, axis=(0, 2, 3), dtype=np.float64), dtype=torch.float32).view(1, 3, 1, 1)
             for f in (np.mean, np.std))
del scaled
numbers = lambda pictures: (torch.from_numpy(pictures).float() / 255 - mean) / std

net = network("resnet20")
run = torch.compile(net) if a.compile else net
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
steps_of_epoch = -(-len(train) // a.batch)
steps, step, accuracy = a.epochs * steps_of_epoch, 0, 0.0
for epoch in range(a.epochs):
    start, order = time.time(), draw.permutation(len(train))
    net.train()
    for first in range(0, len(train), a.batch):
        part = order[first:first + a.batch]
        optimizer.param_groups[0]["lr"] = 0.1 * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.zero_grad()
        F.cross_entropy(run(numbers(augmented(train[part]))), train_labels[part]).backward()
        optimizer.step()
        step += 1
    net.eval()
    with torch.no_grad():
        correct = sum(int((net(numbers(test[i:i + 500])).argmax(1) == test_labels[i:i + 500]).sum())
                      for i in range(0, len(test), 500))
    accuracy = 100 * correct / len(test)
    print("epoch %2d  test accuracy %.2f %%  %.0f s" % (epoch + 1, accuracy, time.time() - start), flush=True)
print("PyTorch %s, seed %d: %.2f %%" % (torch.__version__, a.seed, accuracy))
