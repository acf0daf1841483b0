"""interop_tensorboard.py FOLDER WEIGHTS: the event file of a log, read by TensorBoard's own reader.

Its curves match metrics.jsonl, and its last weight histograms match the weights that the run has saved.
"""
import json
import math
import os
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator as reader

folder, weights_file = sys.argv[1], sys.argv[2]


def check(is_true, what):
    if not is_true:
        sys.exit(f"interop: TensorBoard: {what}")


def near(got, wanted, what, relative=1e-6):
    check(abs(got - wanted) <= relative * (abs(wanted) + 1e-12), f"{what}: {got}, wanted {wanted}")


def weights_of(path):
    """name -> numbers, of a safetensors file"""
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(size)), f.read()
    found = {}
    for name, entry in head.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return found


log = reader.EventAccumulator(folder, size_guidance={reader.SCALARS: 0, reader.HISTOGRAMS: 0})
log.Reload()
tags = log.Tags()

with open(os.path.join(folder, "metrics.jsonl")) as f:
    lines = [json.loads(line) for line in f]
steps = [line for line in lines if line["kind"] == "step"]
epochs = [line for line in lines if line["kind"] == "epoch"]
curves = {"loss": ("loss", steps), "accuracy": ("accuracy", steps), "learning_rate": ("lr", steps),
          "samples_per_s": ("samples_per_s", steps), "test/accuracy": ("test_accuracy", epochs),
          "test/loss": ("test_loss", epochs), "epoch/train_loss": ("train_loss", epochs)}
for tag, (key, wanted) in curves.items():
    check(tag in tags["scalars"], f"there is no curve {tag}, but {tags['scalars']}")
    got = log.Scalars(tag)
    check([e.step for e in got] == [w["step"] for w in wanted], f"{tag}: other steps")
    for e, w in zip(got, wanted):
        near(e.value, w[key], f"{tag}, step {e.step}")
for phase in steps[0].get("share", {"data": 0, "forward": 0, "backward": 0, "sync": 0, "update": 0}):
    wanted = [s for s in steps if "share" in s]
    got = log.Scalars(f"share/{phase}")
    check([e.step for e in got] == [w["step"] for w in wanted], f"share/{phase}: other steps")
    for e, w in zip(got, wanted):
        check(abs(e.value - w["share"][phase]) < 1e-4, f"share/{phase}, step {e.step}")
last = log.Scalars("loss")[-1].wall_time
check(abs(last - os.path.getmtime(os.path.join(folder, "metrics.jsonl"))) < 60, "the wall time is not that of the run")

weights = weights_of(weights_file)
check(set(tags["histograms"]) == {f"{of}/{name}" for of in ("weights", "gradients") for name in weights},
      f"histograms of {tags['histograms']}")
for name, values in weights.items():
    for of in ("weights", "gradients"):
        all_of = log.Histograms(f"{of}/{name}")
        check([e.step for e in all_of] == [e["step"] for e in epochs], f"{of}/{name}: other steps")
        h = all_of[-1].histogram_value
        check(h.num == len(values) == sum(h.bucket), f"{of}/{name}: {h.num} values, {sum(h.bucket)} in buckets")
        limits = list(h.bucket_limit)
        check(limits == sorted(set(limits)), f"{of}/{name}: limits that do not grow")
    h = log.Histograms(f"weights/{name}")[-1].histogram_value
    check((h.min, h.max) == (min(values), max(values)), f"{name}: {h.min} to {h.max}")
    near(h.sum, math.fsum(values), f"sum of {name}", 1e-9 * len(values))
    near(h.sum_squares, math.fsum(v * v for v in values), f"squares of {name}")
    rounding, total = 1e-9 * (h.max - h.min), 0
    for limit, count in zip(h.bucket_limit, h.bucket):
        total += count
        least, most = (sum(v <= limit + r for v in values) for r in (-rounding, rounding))
        check(least <= total <= most, f"{name}: {total} values up to {limit}, wanted {least} to {most}")

gradients = log.Histograms(f"gradients/{next(iter(weights))}")[-1].histogram_value
check(0 < gradients.sum_squares < 1e4 and gradients.min < gradients.max, "the gradients are nothing")
print(f"  TensorBoard reads {len(tags['scalars'])} curves and {len(tags['histograms'])} histograms, as written")
