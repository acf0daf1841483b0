#!/usr/bin/env python3
"""Weights with the names of torchvision: a part of `make test-torch`.

    names.py GRADSUM FOLDER            random weights of torchvision's ResNets, loaded and saved by gradsum: the same
                                       logits, and the same tensors back
    names.py --golden                  write tests/golden/torchvision.txt: the names and shapes of torchvision's tensors

Running statistics are random too, so that each tensor matters. Images are 32 x 32, in CIFAR-10's binary format:
ResNets accept any size. Weights and images are the same in both programs, so logits differ only by rounding: the
tolerance is 1e-4 of the largest. Seen: 1.5e-6.
"""
import os, sys

try:
    import numpy as np
    import torch
    import torchvision
except ImportError as error:
    print("test-torch: names: skipped:", error)
    sys.exit(os.environ.get("GRADSUM_TORCH") == "required")

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from files import gradsum, load_tensors, save_tensors

TOLERANCE, IMAGES, CLASSES = 1e-4, 24, 10


def tensors_of(model):
    return {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}


def golden():
    with open(HERE + "/../golden/torchvision.txt", "w") as out:
        for name in ("resnet18", "resnet50", "vgg11"):
            for k, v in tensors_of(getattr(torchvision.models, name)()).items():
                out.write("%s %s %s\n" % (name, k, ",".join(map(str, v.shape))))


def compare(program, folder, name, images):
    torch.manual_seed(len(name))
    model = getattr(torchvision.models, name)(num_classes=CLASSES)
    for k, v in model.state_dict().items():
        if k.endswith("running_mean"):
            v.normal_(0, 0.2)
        elif k.endswith("running_var"):
            v.uniform_(0.5, 2)
    model.eval()
    theirs, ours, again = folder + "/theirs.safetensors", folder + "/logits.npy", folder + "/ours.safetensors"
    save_tensors(theirs, model.state_dict())  # with the counters that only PyTorch has
    options = ["--model", "%s %d" % (name, CLASSES), "--data", folder, "--load", theirs, "--mean", "0", "--std", "1"]
    gradsum(program, "predict", *options, "-o", ours)
    with torch.no_grad():
        wanted = model(torch.tensor(images) / 255).numpy()
    error = np.abs(np.load(ours) - wanted).max() / np.abs(wanted).max()
    if not error < TOLERANCE:
        sys.exit("names.py: %s: logits differ by %g of the largest, tolerance %g" % (name, error, TOLERANCE))
    # With a rate of 0 the saved weights are the loaded ones, except for the running statistics.
    gradsum(program, "train", *options, "--lr", "0", "--steps", "1", "--batch", "8", "--save", again, "--names",
            "torchvision")
    saved = load_tensors(again)
    if set(saved) != set(tensors_of(model)):
        sys.exit("names.py: %s: the names differ: %s" % (name, sorted(set(saved) ^ set(tensors_of(model)))[:4]))
    for k, v in tensors_of(model).items():
        if saved[k].shape != tuple(v.shape) or ("running" not in k and not np.array_equal(saved[k], v.numpy())):
            sys.exit("names.py: %s: %s differs from what was loaded" % (name, k))
    print("test-torch: names: %s: %d tensors; logits of %d images differ by at most %.1e of the largest"
          % (name, len(saved), len(images), error))


def main(program, folder):
    os.makedirs(folder, exist_ok=True)
    rows = np.random.default_rng(1).integers(0, 256, (IMAGES, 3073), dtype=np.uint8)
    rows[:, 0] = np.arange(IMAGES) % CLASSES
    for batch in range(1, 6):
        rows.tofile("%s/data_batch_%d.bin" % (folder, batch))
    rows.tofile(folder + "/test_batch.bin")
    for name in ("resnet18", "resnet50"):
        compare(program, folder, name, rows[:, 1:].reshape(IMAGES, 3, 32, 32).astype(np.float32))


if __name__ == "__main__":
    golden() if sys.argv[1:] == ["--golden"] else main(*sys.argv[1:])
