"""Made-up training logs in the format of `gradsum train --log`, for report.py: their contents are known."""
import json
import math
import os
import random

SHARES = ("data", "forward", "backward", "sync", "update")


def share_of(workers):
    sync = 0.0 if workers == 1 else 0.05 + 0.03 * workers
    return dict(zip(SHARES, (0.02, 0.33 * (1 - sync), 0.58 * (1 - sync), sync, 0.98 - 0.91 * (1 - sync) - sync)))


def trace_of(workers, steps):
    events, flow = [], 0
    for w in range(workers):
        events.append({"ph": "M", "name": "process_name", "pid": w, "tid": 0, "args": {"name": f"worker {w} (cpu)"}})
        for tid, name in enumerate(("compute", "sync", "loader")):
            events.append({"ph": "M", "name": "thread_name", "pid": w, "tid": tid, "args": {"name": name}})

    def bar(w, tid, cat, name, start, length, step):
        events.append({"ph": "X", "pid": w, "tid": tid, "cat": cat, "name": name, "ts": start, "dur": length, "args": {"step": step}})

    for i, step in enumerate(range(4, 4 + steps)):
        for w in range(workers):
            at = 9000 + 2000 * i + 37 * w
            bar(w, 2, "load", "gather 64 samples", at - 300, 180, step)
            bar(w, 0, "load", "load", at, 40, step)
            bar(w, 0, "forward", "forward", at + 40, 400, step)
            for k, name in enumerate(("0.conv2d", "1.relu", "2.max_pool2d", "4.linear")):
                bar(w, 0, "forward", f"forward {name}", at + 45 + 95 * k, 90, step)
                bar(w, 0, "backward", f"backward {name}", at + 1010 - 190 * k, 180, step)
            bar(w, 0, "backward", "backward", at + 440, 760, step)
            bar(w, 0, "sync", "sync ring", at + 1200, 420, step)
            bar(w, 0, "update", "update", at + 1630, 90, step)
            for r in range(2 * (workers - 1)):
                other, sent = (w + 1) % workers, at + 1210 + 60 * r
                bar(w, 1, "message", f"send 2 kB to {other}", sent, 30, step)
                flow += 1
                events.append({"ph": "s", "id": flow, "pid": w, "tid": 1, "ts": sent + 1, "cat": "message", "name": "message"})
                events.append({"ph": "f", "id": flow, "pid": other, "tid": 1, "ts": sent + 45, "cat": "message", "name": "message"})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_log(folder, workers=1, steps=141, speed=40000.0, more=None, trace_steps=4):
    """A run of `steps` steps in 3 epochs at `speed` samples/s; `more` replaces fields of run.json."""
    os.makedirs(folder)
    chance, an_epoch, batch = random.Random(workers), max(1, steps // 3), 128
    run = {"format": "gradsum-run", "version": 1, "program": "gradsum 1.2.3",
           "command": ["gradsum", "train", "--model", "conv 8 5x5, relu, max_pool 2, flatten, linear 10", "--devices", ",".join(["cpu"] * workers)],
           "started": "2026-11-21T13:31:56Z", "host_cores": 8, "model": "lenet",
           "model_text": "conv 6 5x5 pad 2, relu, max_pool 2, conv 16 5x5, relu, max_pool 2, flatten, linear 120, relu, linear 84, relu, linear 10",
           "data": "fashion-mnist-small", "global_batch": batch, "epochs": 3, "steps_per_epoch": an_epoch, "workers": workers, "processes": 1,
           "sync": "ring", "transport": "threads", "wire": "f32", "bucket_kb": 0, "optimizer": {"lr": 0.05, "momentum": 0.9, "lr_rule": "none"},
           "seed": 1, "devices": [{"worker": w, "device": "cpu", "name": "AMD EPYC, 1 thread"} for w in range(workers)],
           "versions": {"openblas": "0.3.21", "opencl": "PoCL 3.1", "gloo": "0.5.0"},
           "ended": {"why": "done", "seconds": steps * batch / speed, "steps": steps, "test_accuracy": 0.85},
           "memory": {"weights": 246824 * workers, "gradients": 246824 * workers, "optimizer": 246824 * workers, "activations": 9_800_000 * workers,
                      "data": 4_704_000, "peak_resident": 40_000_000 + 12_000_000 * workers}, **(more or {})}
    with open(f"{folder}/run.json", "w") as f:
        json.dump({k: v for k, v in run.items() if v is not None}, f)
    with open(f"{folder}/metrics.jsonl", "w") as f:
        for s in range(1, steps + 1):
            time, fall = s * batch / speed, math.exp(-3 * s / steps)
            line = {"kind": "step", "step": s, "epoch": (s - 1) // an_epoch, "time": time, "loss": 0.4 + 1.9 * fall + chance.gauss(0, 0.06),
                    "accuracy": min(1, 0.86 - 0.75 * fall + chance.gauss(0, 0.03)), "lr": 0.05,
                    "samples_per_s": speed * (1 + chance.gauss(0, 0.05)), "share": share_of(workers)}
            f.write(json.dumps(line) + "\n")
            if s % an_epoch == 0:
                e = s // an_epoch - 1
                for w in range(workers):
                    f.write(json.dumps({"kind": "worker", "epoch": e, "worker": w, "samples_per_s": speed / workers, "share": share_of(workers + w)}) + "\n")
                f.write(json.dumps({"kind": "epoch", "epoch": e, "step": s, "time": time, "train_loss": 0.42 + 1.9 * fall, "test_loss": 0.5 + 1.8 * fall,
                                    "test_accuracy": 0.85 - 0.7 * fall, "samples_per_s": speed}) + "\n")
    if trace_steps:
        with open(f"{folder}/trace.json", "w") as f:
            json.dump(trace_of(workers, trace_steps), f)
    return folder
