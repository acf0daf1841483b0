"""interop_log.py GRADSUM FOLDER...: logs of `gradsum train --log`, checked by other projects' readers.

It checks run.json, each line of metrics.jsonl and trace.json against the JSON schemas in this folder
(python3-jsonschema), and what no schema can express: rows nest, arrows have two ends, messages match the formula, and
layers match the model.
"""
import json
import os
import subprocess
import sys

import jsonschema

gradsum, folders = sys.argv[1], sys.argv[2:]
here = os.path.dirname(os.path.abspath(__file__))


def schema(name):
    with open(os.path.join(here, name)) as f:
        text = json.load(f)
    jsonschema.Draft7Validator.check_schema(text)
    return jsonschema.Draft7Validator(text)


RUN, METRICS, TRACE = (schema(f"log_{part}.schema.json") for part in ("run", "metrics", "trace"))


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def load(text):
    return json.loads(text, parse_constant=no_constant)


def check(is_true, what):
    if not is_true:
        raise AssertionError(what)


def check_run(folder):
    with open(os.path.join(folder, "run.json")) as f:
        run = load(f.read())
    RUN.validate(run)
    check(len(run["devices"]) == run["workers"], "a device for each worker")
    check([d["worker"] for d in run["devices"]] == list(range(run["workers"])), "workers in order")
    check(run["ended"]["why"] == "done", run["ended"]["why"])
    return run


def check_metrics(folder, run):
    with open(os.path.join(folder, "metrics.jsonl")) as f:
        lines = [load(line) for line in f]
    for line in lines:
        METRICS.validate(line)
        if "share" in line:
            check(abs(sum(line["share"].values()) - 1) < 0.001, f"shares of {line}")
    steps = [line for line in lines if line["kind"] == "step"]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    check([s["step"] for s in steps] == list(range(1, run["ended"]["steps"] + 1)), "each step has its line")
    times = [s["time"] for s in steps]
    check(times == sorted(times), "time goes on")
    check(len(epochs) == epochs[-1]["epoch"], "each epoch has its line")
    check(sum(line["kind"] == "worker" for line in lines) == run["workers"] * len(epochs), "and each worker in it")
    check(epochs[-1]["test_accuracy"] == run["ended"]["test_accuracy"], "the last accuracy")
    if "worker" not in steps[0]:  # the epoch's loss is the mean of the steps' losses, weighted by samples
        left, batch, sums = run["train_samples"], run["global_batch"], 0
        first = steps[: epochs[0]["step"]]
        for s in first:
            sums += s["loss"] * min(batch, left)
            left -= min(batch, left)
        mean = sums / (run["train_samples"] - left)
        check(abs(mean - epochs[0]["train_loss"]) < 1e-6 * (1 + abs(mean)), f"loss of epoch 1: {mean}, {epochs[0]}")
    return len(lines)


def layers_of(run):
    """Names of the model's layers: those that must appear in the trace, and those that may be fused into another one: a
    relu, and a pooling right after the relu of a convolution."""
    text = subprocess.run([gradsum, "model", run["model_text"]], check=True, capture_output=True, text=True).stdout
    rows = [line.split()[:2] for line in text.splitlines() if line[:1].isdigit()]
    kinds = [what for _, what in rows]
    fused = {name for i, (name, _) in enumerate(rows) if i > 1 and kinds[i - 2:i + 1] == ["conv", "relu", "max_pool"]}
    optional = {name for name, what in rows if what == "relu"} | fused
    return {name for name, what in rows if what not in ("relu", "flatten", "sequential")} - optional, optional


def spans_nest(row):
    """Spans of one row are either nested or disjoint."""
    open_ends = []
    for start, end, name in sorted(row, key=lambda s: (s[0], -s[1])):
        while open_ends and open_ends[-1][0] <= start:
            open_ends.pop()
        check(not open_ends or end <= open_ends[-1][0], f"{name} does not end in {open_ends[-1:]}")
        open_ends.append((end, name))


def nanoseconds(x):
    return round(1000 * x)


def check_trace(folder, run):
    with open(os.path.join(folder, "trace.json")) as f:
        trace = load(f.read())
    TRACE.validate(trace)
    events = trace["traceEvents"]
    first, last = run["trace_steps"]
    needed, optional = layers_of(run)
    spans = [e for e in events if e["ph"] == "X"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    check(names == {d["worker"]: f"worker {d['worker']} ({d['device']})" for d in run["devices"]}, names)
    rows, threads = {}, {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    for e in spans:
        begin = nanoseconds(e["ts"])
        rows.setdefault((e["pid"], e["tid"]), []).append((begin, begin + nanoseconds(e["dur"]), e["name"]))
    check(set(rows) == threads, "each row has a name, and each name a row")
    for row in rows.values():
        spans_nest(row)

    for worker in range(run["workers"]):
        mine = [e for e in spans if e["pid"] == worker and e["tid"] == 0]
        for step in range(first, last + 1):
            done = [e["name"] for e in mine if e["args"]["step"] == step]
            for name in ["load", "forward", "backward", "sync", "update", f"step {step}"]:
                if name == "update" and run["sync"] == "async" or name == "sync" and run["sync"] == "local":
                    continue  # the server runs the update; workers meet in some steps only
                check(name in done, f"worker {worker}, step {step}: no {name}")
            for direction in ("forward", "backward"):
                got = {n.split(" ")[1].rpartition(".")[0] for n in done if n.startswith(direction + " ")}
                check(needed <= got <= needed | optional, f"worker {worker}, step {step}: {direction} of {got}")

    counters = {e["pid"] for e in events if e["ph"] == "C"}
    check(counters == set(range(run["workers"])), f"memory of the workers {counters}")

    sent = [e for e in spans if e["name"].startswith("send ")]
    received = [e for e in spans if e["name"].startswith("receive ")]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    check(len(starts) + len(ends) == sum(e["ph"] in "sf" for e in events), "ids are used once")
    check(set(starts) == set(ends), "every arrow has two ends")
    check(len(sent) == len(received) == len(starts), f"{len(sent)} sent, {len(received)} received, {len(starts)} arrows")

    def around(e, candidates):
        at = nanoseconds(e["ts"])
        hits = [s for s in candidates if (s["pid"], s["tid"]) == (e["pid"], e["tid"])
                and nanoseconds(s["ts"]) <= at < nanoseconds(s["ts"]) + max(nanoseconds(s["dur"]), 1)]
        check(len(hits) == 1, f"the end {e} lies in {len(hits)} messages")
        return hits[0]["args"]

    for i, s in starts.items():
        a, b = around(s, sent), around(ends[i], received)
        check(s["ts"] <= ends[i]["ts"], f"arrow {i} goes back in time")
        for key in ("step", "from", "to", "bytes", "round", "first", "count"):
            check(a.get(key) == b.get(key), f"arrow {i}: {a} and {b}")
        check(s["pid"] == a["from"] and ends[i]["pid"] == a["to"], f"arrow {i} joins {s['pid']} and {ends[i]['pid']}")
    check_formula(run, sent, first, last)
    return len(spans), len(starts)


def check_formula(run, sent, first, last):
    """Messages and bytes per step, by the table in the README, for an array of the gradients and four counts."""
    n, b = run["workers"], 4 * (run["parameters"] + 4)
    wanted = {"ring": (2 * n * (n - 1), 2 * (n - 1) * b), "ps": (2 * (n - 1), 2 * (n - 1) * b),
              "tree": (2 * (n - 1), 2 * (n - 1) * b), "async": (2 * (n - 1), 2 * (n - 1) * b),
              "allreduce": (0, 0)}.get(run["sync"])
    if wanted is None or run["wire"] != "f32" or run["bucket_kb"] or run["exact"]:
        return
    for step in range(first, last + 1):
        here = [e["args"]["bytes"] for e in sent if e["args"]["step"] == step]
        check((len(here), sum(here)) == wanted, f"step {step}: {len(here)} messages, {sum(here)} bytes; wanted {wanted}")


for folder in folders:
    try:
        about = check_run(folder)
        lines = check_metrics(folder, about)
        spans, arrows = check_trace(folder, about)
    except Exception as why:
        sys.exit(f"interop: {os.path.basename(folder)}: {why}")
    print(f"  {os.path.basename(folder):12} {lines} lines, {spans} spans, {arrows} arrows")
