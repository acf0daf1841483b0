"""layouts.py GRADSUM FOLDER: the pages of `gradsum step --zero 3`, and memory over one step on
the page of `gradsum report`, in a real browser. The picture is compared with the `--json` output of such a step.

Screenshots are saved in FOLDER for inspection.
"""
import os
import shutil

from browser import (b, check, equal, every, folder, in_all_looks, look, no_complaints, one, program, rows, run, visit)

KIND = {"stage forward": 8, "stage backward": 9, "gather": 10, "reduce": 11, "weights": 12, "sum": 14}


def page_of(name, *options):
    path = f"{folder}/step-{name}.html"
    program("step", *options, "--threads", "1", "-o", path)
    visit(path)
    return path


def spans(kind):
    return b.execute_script("return data.spans.filter((s) => s[2] === arguments[0]).length", KIND[kind])


def bars(words):
    """how many drawn bars have a label with these words"""
    return len([e for e in every("#picture .bar") if words in e.get_attribute("aria-label")])


def a_pipeline():
    path = page_of("pipeline", "--model", "lenet", "--pipeline", "2", "--accumulate", "4")
    equal(bars("forward of micro-batch"), 8, "forwards of 4 micro-batches in 2 stages")
    equal(bars("backward of micro-batch"), 8, "backwards")
    check(len(every("#picture .arrow")) >= 8, "arrows of 4 activations and 4 gradients")
    check("20.0 %" in one("#sentences").text, "the formula's bubble, 1 / 5")
    no_complaints(path)
    in_all_looks(path, "step-pipeline")


def each_schedule_has_its_name():
    for schedule, title in (("gpipe", "GPipe"), ("1f1b", "1F1B"), ("eager", "eager 1F1B"), ("interleaved:2", "interleaved 1F1B")):
        path = page_of(schedule.split(":")[0], "--model", "lenet", "--pipeline", "2", "--micro-batches", "4", "--pipeline-schedule", schedule)
        said = [name for name in ("GPipe", "eager 1F1B", "interleaved 1F1B", "1F1B") if f"({name})" in one("#read").text]
        equal(said, [title], f"the page of {schedule}")
        no_complaints(path)


def zero_3():
    path = page_of("zero", "--model", "lenet", "--zero", "3")
    units = b.execute_script("return data.units.length")
    equal(spans("gather"), 4 * units, "two gathers of each unit on each of 2 workers")
    equal(bars("all-gather"), spans("gather"), "a bar for each gather")
    equal(bars("reduce-scatter"), spans("reduce"), "a bar for each sum")
    equal(bars("window with all weights"), spans("weights"), "a bar for each window of weights")
    no_complaints(path)
    in_all_looks(path, "step-zero")


def zero_1():
    path = page_of("zero-1", "--model", "lenet", "--zero", "1")
    equal(bars("worker 0: all-gather"), 1, "after its update worker 0 gathers weights, without a sum")
    equal(bars("worker 0: sum"), 1, "and one sum before it")
    colours = {entry.find_element("css selector", "i").get_attribute("style") for entry in every("#legend span")}
    equal(len(colours), len(every("#legend span")), "different colours in the legend")
    check("window" not in one("#read").text, "ZeRO 1 has no windows")
    no_complaints(path)


def replicas_of_stages():
    path = page_of("replicas", "--model", "mlp", "--layout", "dp2,pp2")
    names = b.execute_script("return [...document.querySelectorAll('#picture .sub')].map((e) => e.textContent)")
    equal([n.split(", ")[-1] for n in names], ["replica 0", "replica 1"] * 2, "the name of each row")
    equal([row[0] for row in rows("#facts")], ["0, s0 r0", "1, s0 r1", "2, s1 r0", "3, s1 r1"], "the name of each line")
    look(400, 844)
    visit(path)
    equal(len(every(".hint")), 2, "in a narrow window the picture and the table scroll")
    look(1280, 800)
    visit(path)
    equal(len(every(".hint")), 0, "in a wide window they do not")
    no_complaints(path)


def tensor_2():
    path = page_of("tensor", "--model", "mlp", "--tensor", "2")
    equal(bars("sum in the group"), spans("sum"), "a bar for each sum")
    cells = [e.text for e in every("#facts tbody tr:first-child td")]
    equal(cells[-1], cells[-2], "bytes counted, and by the formula")
    check(one("#near-card").is_displayed(), "the first pair, enlarged")
    no_complaints(path)
    in_all_looks(path, "step-tensor")


def memory_over_a_step():
    log, path = f"{folder}/memory-log", f"{folder}/report-memory.html"
    shutil.rmtree(log, ignore_errors=True)
    program("train", "--model", "lenet", "--devices", "cpu,cpu", "--pipeline", "2", "--threads", "1", "--steps", "3",
            "--trace-steps", "3", "--log", log)
    program("report", log, "-o", path)
    visit(path)
    check(one("#memory-step").is_displayed(), "memory over a step is shown")
    equal(len(every("#areas canvas")), 2, "a picture for each worker")
    facts = dict(line.text.split(" ", 1) if not line.text.startswith("sum of gradients") else
                 ("sums", line.text[len("sum of gradients "):]) for line in every("#runs-made tr"))
    equal(facts["sums"], "none among replicas, as there is one", "sums of gradients in two stages of one pipeline")
    most, last = b.execute_script("""
        const m = runs[0].trace.memory, k = 2 + m.kinds.indexOf('activations'), of = m.samples.map((s) => s[k]);
        return [Math.max(...of), of.at(-1)]""")
    check(most > 0 and last == 0, f"activations come and go: {most}, {last}")
    shown = b.execute_script("return charts['areas-0'].data.datasets.map((d) => d.label)")
    check(shown[0] == "weights" and shown[-1] == "activations, free", f"the order of the areas: {shown}")
    equal(empty_areas(), [], "areas whose middle has no colour")
    no_complaints(path)
    in_all_looks(path, "report-memory")


def empty_areas():
    """The kinds whose area is at least 8 pixels high after some sample, and is not painted in the middle."""
    return b.execute_script("""
        const empty = [];
        for (const chart of Object.values(charts).filter((c) => c.canvas.id.startsWith('areas-'))) {
          const ratio = chart.currentDevicePixelRatio, {width, height} = chart.canvas;
          const pixels = chart.ctx.getImageData(0, 0, width, height).data, floor = chart.scales.y.getPixelForValue(0);
          const alpha = (x, y) => pixels[(Math.floor(y * ratio) * width + Math.floor(x * ratio)) * 4 + 3];
          const lines = chart.data.datasets.map((_, i) => chart.getDatasetMeta(i).data);
          lines.forEach((line, i) => line.slice(0, -1).forEach((p, k) => {
            const bottom = i > 0 ? lines[i - 1][k].y : floor, x = (p.x + line[k + 1].x) / 2;
            if (bottom - p.y >= 8 && alpha(x, (p.y + bottom) / 2) === 0) empty.push(`${chart.canvas.id}: ${chart.data.datasets[i].label}`);
          }));
        }
        return empty""")


os.makedirs(folder, exist_ok=True)
run([a_pipeline, each_schedule_has_its_name, replicas_of_stages, zero_1, zero_3, tensor_2, memory_over_a_step])
