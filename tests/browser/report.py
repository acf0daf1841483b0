"""report.py GRADSUM FOLDER: the page of `gradsum report` in a real browser, of logs whose content is known.

What its tables and charts show is compared with what was written into the logs (made_logs.py); and the pages of logs that
training wrote, and of `compare`, with its JSON. Those of `sweep`: sweep.py.
"""
import json
import math
import os
import shutil
import statistics

from browser import (ActionChains, Keys, Select, b, chart, check, equal, every, folder, in_all_looks, keys, light, look, no_complaints,
                     one, program, rows, run, shift, shoot, visit, wait_for)
from made_logs import write_log

HARM = "</script><img src=x onerror=document.title='harmed'>\"'&<b>"
SPEEDS = {"one": (1, 40000.0), "two": (2, 76000.0), "four": (4, 138000.0)}


def log(name, **how):
    path = f"{folder}/logs/{name}"
    shutil.rmtree(path, ignore_errors=True)
    return write_log(path, **how)


def page(name, *logs):
    path = f"{folder}/{name}.html"
    program("report", *logs, "-o", path)
    visit(path)
    return path


def three():
    return page("report", *(log(name, workers=w, speed=s) for name, (w, s) in SPEEDS.items()))


def painted(css):
    """The number of different colours in a canvas; 1 for an empty one."""
    return b.execute_script("""const c = document.querySelector(arguments[0]), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 24 | d[i + 1] << 16 | d[i + 2] << 8 | d[i + 3]); return seen.size""", css)


# ---- the tests ----


def the_table_says_what_is_in_the_logs():
    three()
    for (name, (workers, speed)), row in zip(SPEEDS.items(), rows()):
        equal(row[:2], [name, str(workers)], "run")
        equal(row[3:6], [f"{speed:,.0f}", f"{speed / 40000:.2f}", f"{100 * speed / 40000 / workers:.0f} %"], f"{name}: speed")
        equal((row[7], row[10]), ("141", "85.00 %"), f"{name}: steps, accuracy")
    no_complaints("the table")


def charts_show_the_logs():
    three()
    with open(f"{folder}/logs/two/metrics.jsonl") as f:
        lines = [json.loads(line) for line in f]
    steps = [e for e in lines if e["kind"] == "step"]
    for x, scale in (("step", 1), ("time", 1)):
        points = chart(f"loss-{x}", "data.datasets.find((d) => d.run.name === 'two').data.map((p) => [p.x, p.y])")
        equal(len(points), len(steps), f"points of the loss against {x}")
        worst = max(abs(p[1] - e["loss"]) + abs(p[0] - e[x]) for p, e in zip(points, steps))
        check(worst < 1e-3 * scale, f"loss against {x} is off by {worst}")
    equal(chart("speed-up", "data.datasets.map((d) => d.data.map((p) => [p.x, +p.y.toFixed(3)]))"),
          [[[1, 1]], [[2, 1.9]], [[4, 3.45]], [[0, 0], [4.5, 4.5]]], "speed-up and the ideal")
    check(chart("efficiency", "data.datasets.at(-1).data.every((p) => p.y === 1)"), "the ideal efficiency is not 1")
    equal(chart("throughput", "data.datasets[0].data"), [40000, 76000, 138000], "bars of samples/s")
    equal(chart("time", "data.labels"), ["one", "two", "worker 0", "worker 1", "four"] + [f"worker {w}" for w in range(4)], "bars of time")
    in_all = chart("time", "data.datasets.reduce((sum, d) => sum + d.data[1], 0)")
    check(abs(in_all - 1000 * 128 / 76000) < 0.01, f"a step of two takes {in_all} ms")
    equal(chart("bytes", "data.datasets.map((d) => [d.label, d.data[2]])"),
          [["weights", 4 * 246824], ["gradients", 4 * 246824], ["optimizer", 4 * 246824], ["activations", 39200000], ["data", 4704000],
           ["peak of the process", 88000000]], "memory")
    for canvas in every("canvas[id]"):
        if canvas.is_displayed():
            check(painted(f"#{canvas.get_attribute('id')}") > 3, f"{canvas.get_attribute('id')} is empty")
    made = one("#runs-made").text
    for word in ("--model 'conv 8 5x5, relu, max_pool 2, flatten, linear 10' --devices cpu,cpu", "openblas 0.3.21; opencl PoCL 3.1; gloo 0.5.0",
                 "AMD EPYC, 1 thread", "2026-11-21T13:31:56Z"):
        check(word in made, f"missing text: {word}")
    no_complaints("charts")


def chips_and_switches():
    three()
    every("#chips button")[1].click()
    equal(every("#chips button")[1].get_attribute("aria-pressed"), "false", "the chip")
    check(chart("loss-step", "data.datasets.filter((d) => d.run.name === 'two').every((d) => d.hidden)"), "two is still shown")
    equal(chart("throughput", "data.labels"), ["one", "four"], "bars without two")
    every("#chips button")[1].send_keys(Keys.SPACE)
    equal(chart("throughput", "data.labels"), ["one", "two", "four"], "bars with two again")
    one("#log").click()
    equal(chart("loss-time", "options.scales.y.type"), "logarithmic", "loss")
    one("[value=share]").click()
    check(abs(chart("time", "data.datasets.reduce((sum, d) => sum + d.data[1], 0)") - 1) < 1e-3, "shares do not add up to 1")
    box = one("#loss-step")
    b.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
    ActionChains(b).move_to_element(box).perform()
    wait_for(lambda: chart("loss-step", "tooltip.opacity") == 1, "values beside the pointer")
    no_complaints("switches")


def view():
    return b.execute_script("return [timeline.from, timeline.to, timeline.to - timeline.from]")


def the_timeline_zooms():
    three()
    equal(Select(one("#line-run")).first_selected_option.text, "four", "the run with the most messages is first")
    equal(b.execute_script("return [timeline.events.length, timeline.flows.length, timeline.rows.length]"), [4 * 4 * (1 + 1 + 1 + 8 + 1 + 1 + 1 + 6), 4 * 4 * 6, 12],
          "bars, arrows and rows")
    line = one("#line")
    b.execute_script("arguments[0].scrollIntoView({block: 'center'})", line)
    whole = view()[2]
    one("#line-in").click()
    check(abs(view()[2] / whole - .6) < .01, f"+: {view()[2] / whole}")
    Select(one("#line-step")).select_by_value("5")
    equal([round(t) for t in view()[:2]], [11000, 12831], "step 5: from its first load to its last update")
    line.click()
    b.execute_script("arguments[0].focus()", line)
    before = view()
    keys(Keys.ARROW_RIGHT)
    check(abs(view()[0] - before[0] - .2 * before[2]) < 1, "right")
    keys("+")
    check(abs(view()[2] / before[2] - .6) < .01, "the key +")
    keys(Keys.HOME)
    check(abs(view()[2] - whole) < 1, "Home shows all")
    shift(Keys.ARROW_RIGHT)
    shift(Keys.ARROW_RIGHT)
    equal((one("#tip b").text, one("#tip tr:last-child td").text), ("gather 64 samples", "5"), "the next bar of the loader")
    shoot("timeline-cursor")
    shift(Keys.ARROW_UP)
    check("worker 0 (cpu), sync" in one("#tip").text and "send 2 kB to 1" in one("#tip").text, f"a row above: {one('#tip').text}")
    keys(Keys.ESCAPE)
    check(not one("#tip").is_displayed(), "Esc")
    before = view()
    one("#line-in").click()
    ActionChains(b).drag_and_drop_by_offset(line, -100, 0).perform()
    check(view()[0] > before[0], "drag")
    at = b.execute_script("const e = timeline.events.find((e) => e.name === 'sync ring' && e.end < timeline.to && e.start > timeline.from);"
                          "return [timeline.x((e.start + e.end) / 2) - timeline.width / 2, timeline.top(e) + 4 - timeline.height / 2]")
    ActionChains(b).move_to_element_with_offset(line, round(at[0]), round(at[1])).perform()
    check("sync ring" in one("#tip").text and "420 µs" in one("#tip").text, f"next to the pointer: {one('#tip').text}")
    Select(one("#line-run")).select_by_visible_text("one")
    equal(b.execute_script("return timeline.rows.length"), 3, "rows of one worker")
    no_complaints("the timeline")


def a_trace_is_made_ready():
    """Of two bars that start together, the longer one is first; an arrow has two ends; missing names get a default."""
    three()
    trace = b.execute_script("""return traceOf({all: 4, events: [
        ['M', 1, 0, null, null, null, 'process_name', null, {name: 'worker 1 (cl)'}],
        ['X', 0, 1, 10, 1, 'message', 'send', null, 4], ['X', 0, 1, 10, 9, 'gather', 'sync', null, 4],
        ['s', 0, 1, 11, null, null, null, 7, null], ['s', 0, 1, 11, null, null, null, 8, null], ['f', 1, 0, 12, null, null, null, '7', null],
        ['X', 1, 0, 20, 5, 'constructor', {}, null, null], ['X', null, 'x', 21, 1, null, null, null, -3],
        ['C', 1, 0, 21, null, null, 'memory', null, {weights: 4, data: 'x'}]]})""")
    equal([trace["workers"], trace["rows"]], [["worker -1", "worker 0", "worker 1 (cl)"], [[0, "thread -1"], [1, "sync"], [2, "compute"]]],
          "workers and rows")
    equal([[e["row"], e["kind"], e["name"], e["step"]] for e in trace["events"]], [[1, 3, "sync", 4], [1, 5, "send", 4], [2, 7, "", -1], [0, 7, "", -1]], "bars")
    equal(trace["flows"], [{"from": 1, "sent": 11, "to": 2, "received": 12}], "arrows")
    equal([trace["memory"]["samples"][0][:3], sum(trace["memory"]["samples"][0][3:])], [[2, 21, 4], 0], "memory")


def ten_thousand_steps_are_thinned():
    path = page("long", log("long", workers=2, steps=10000, speed=76000.0, trace_steps=2000))
    size = os.path.getsize(path)
    check(size < 2_000_000, f"{size} bytes")
    equal(chart("loss-step", "data.datasets[0].data.length"), 400, "points")
    with open(f"{folder}/logs/long/metrics.jsonl") as f:
        losses = [json.loads(line)["loss"] for line in f if '"step", ' in line]
    edges = [chart("loss-step", f"data.datasets[{i}].data.map((p) => p.y)") for i in (1, 2)]
    check(abs(min(edges[0]) - min(losses)) < 1e-4 and abs(max(edges[1]) - max(losses)) < 1e-4, "the extremes are not kept")
    check("10,000 steps are shown as means of 25 each" in one("#thinned").text, one("#thinned").text)
    check("The first 8,000 of" in one("#line-note").text, one("#line-note").text)
    opened = b.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    print(f"test-browser: a run of 10,000 steps: {size} bytes, open after {opened:.0f} ms")
    shoot("long-wide-light", whole=True)
    no_complaints("10,000 steps")


def harm_stays_text():
    path = log("harm", more={"model": HARM, "model_text": HARM, "command": ["gradsum", HARM], "devices": [HARM, {"name": HARM}, None],
                             "memory": {"weights": HARM}, "optimizer": [HARM], "versions": {HARM: HARM}, "ended": {"why": HARM}})
    with open(f"{path}/trace.json") as f:
        text = f.read().replace("send 2 kB", json.dumps(HARM)[1:-1]).replace("worker 0 (cpu)", json.dumps(HARM)[1:-1])
    with open(f"{path}/trace.json", "w") as f:
        f.write(text)
    page("harm", path)
    check(HARM in one("#runs-made").text and HARM in one("#lead").text, "the model's text is not shown unchanged")
    equal(b.execute_script("return [document.title, document.querySelectorAll('img').length]"), ["gradsum: harm", 0], "harm")
    no_complaints("harm")


def a_command_of_several_processes_says_so():
    page("processes", log("one-process"), log("two-processes", workers=2, more={"processes": 2}))
    one_process, two = (run.text for run in every("#runs-made pre"))
    check("--devices cpu" in one_process and "processes" not in one_process, one_process)
    check(two.endswith("--devices cpu,cpu  # in 2 processes"), two)
    no_complaints("several processes")


def what_is_missing_is_said():
    path = log("damaged", workers=2, more={"ended": None, "memory": None})
    with open(f"{path}/metrics.jsonl", "r+") as f:
        f.truncate(os.path.getsize(f"{path}/metrics.jsonl") - 30)
    with open(f"{path}/trace.json", "r+") as f:
        f.truncate(os.path.getsize(f"{path}/trace.json") // 2)
    page("damaged", path)
    for word in ("has not ended", "The last line of metrics.jsonl is cut off", "trace.json is cut off"):
        check(word in one("#notes").text, f"missing text: {word}: {one('#notes').text}")
    check(b.execute_script("return timeline.events.length") > 20, "bars before the cut")
    check(not one("#memory").is_displayed(), "unknown memory is shown")
    shoot("damaged")
    only = log("only-run", trace_steps=0)
    os.remove(f"{only}/metrics.jsonl")
    page("only-run", only)
    check(not one("#curves").is_displayed() and not one("#timeline").is_displayed(), "sections without content")
    no_complaints("damaged logs")


def real_logs():
    """The page shows what training wrote; the messages of a ring have arrows."""
    path = f"{folder}/logs/trained"
    shutil.rmtree(path, ignore_errors=True)
    program("train", "--model", "softmax", "--devices", "cpu,cpu,cpu", "--sync", "ring", "--threads", "1", "--epochs", "1", "--log", path)
    page("trained", path)
    with open(f"{path}/metrics.jsonl") as f:
        steps = [e for e in map(json.loads, f) if e["kind"] == "step"]
    points = chart("loss-step", "data.datasets[0].data.map((p) => [p.x, p.y])")
    equal([p[0] for p in points], [e["step"] for e in steps], "steps")
    check(max(abs(p[1] - e["loss"]) for p, e in zip(points, steps)) < 1e-3, "losses")
    notes = [note for note in one("#notes").text.splitlines() if "machine was busy" not in note]  # it may be
    equal(notes, [], "complaints")
    equal(b.execute_script("return [timeline.workers, timeline.steps]"), [[f"worker {w} (cpu)" for w in range(3)], [4, 5, 6, 7]], "the timeline")
    equal(b.execute_script("return timeline.flows.length"), 4 * 3 * 2 * 2, "arrows of 4 steps, 3 workers, 2 (3 - 1) rounds")
    check(b.execute_script("return timeline.flows.every((f) => f.received >= f.sent)"), "a message arrives before it was sent")
    check("41,888" in rows()[0], "2 (3 - 1) / 3 of 7850 gradients and 4 sums, as f32")
    check(one("#memory").is_displayed() and "--sync ring" in one("#runs-made").text, "memory and the command")
    no_complaints("a trained run")


def training_is_thin_and_the_test_set_bold():
    three()
    lines = chart("loss-step", "data.datasets.map((d) => [d.label, d.borderWidth, d.pointRadius, d.borderColor.length])")
    training = [line for line in lines if line[0] == "training batch"]
    test = [line for line in lines if line[0] == "test set"]
    equal((len(training), len(test)), (3, 3), "lines")
    check(all(width <= 1 and points == 0 and colour == 9 for _, width, points, colour in training), f"not thin and pale: {training}")
    check(all(width >= 2 and points >= 4 and colour == 7 for _, width, points, colour in test), f"not bold: {test}")


def a_slider_smooths():
    three()
    raw = "data.datasets.find((d) => d.run.name === 'two' && d.label === 'training batch').data.map((p) => p.y)"
    before = chart("loss-step", raw)
    equal(chart("loss-step", "data.datasets.filter((d) => d.isSmooth).length"), 0, "smooth lines before")
    one("#smooth").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    equal(one("#smooth-say").text, "means of 5 steps; pale: as measured", "the slider")
    smooth = chart("loss-step", "data.datasets.find((d) => d.isSmooth && d.run.name === 'two').data.map((p) => p.y)")
    for i in (0, 1, 2, 70, len(before) - 1):
        window = before[max(0, i - 2):i + 3]
        check(abs(smooth[i] - sum(window) / len(window)) < 1e-9, f"step {i}: {smooth[i]}, wanted the mean of {window}")
    equal(chart("loss-step", raw), before, "the measured values stay")
    no_complaints("the slider")


def speed_is_a_median_over_windows():
    three()
    with open(f"{folder}/logs/two/metrics.jsonl") as f:
        speeds = [e["samples_per_s"] for e in map(json.loads, f) if e["kind"] == "step"]
    got = chart("speed-time", "data.datasets.find((d) => d.run.name === 'two').data.map((p) => p.y)")
    wanted = [statistics.median(speeds[i:i + 5]) for i in range(0, len(speeds) - 2, 5)]
    equal(len(got), len(wanted), "windows")
    check(max(abs(g - w) / w for g, w in zip(got, wanted)) < 1e-4, f"medians: {got[:3]}, wanted {wanted[:3]}")
    check("medians over 5 steps" in one("#speed-time-card h3").text, one("#speed-time-card h3").text)


def a_colour_has_one_meaning():
    """No run's colour resembles a phase's, a memory kind's or an error's; no two phases share a pattern and a tone."""
    for is_dark in (False, True):
        look(1280, 800, dark=is_dark)
        three()
        groups = b.execute_script("readLook(); return [look.runs, look.phases.slice(0, 6), look.memory, [look.move]]")
        for i, group in enumerate(groups):
            for other in groups[i + 1:]:
                for x in group:
                    for y in other:
                        distance = math.dist(light(x), light(y))
                        check(distance > 0.03, f"{x} and {y} are only {distance:.3f} apart, but mean different things")
        for colours in groups[:3]:
            equal(len({tuple(round(v, 2) for v in light(c)) for c in colours}), len(colours), f"colours of one list: {colours}")
    tiles = b.execute_script("return look.phases.slice(0, 6).map((hex, k) => tile('#808080', k).toDataURL())")
    check(len(set(tiles)) >= 4, "phases have no patterns")
    look(1280, 800)


def best_only_beyond_the_spread():
    def bold():
        cells = [cell.text for cell in every("#table td.best")]
        equal("Bold" in one("#base").text, bool(cells), "the meaning of bold is explained exactly where something is bold")
        return cells
    page("far", log("slow", speed=20000.0), log("fast", speed=40000.0, more={"test_samples": 1000}))
    equal(bold(), ["40,000"], "twice as fast; one accuracy lacks its number of images")
    page("near", log("a", speed=40000.0), log("b", speed=40001.0))
    equal(bold(), [], "within the spread")
    made = {"test_samples": 10000, "ended": {"why": "done", "steps": 141, "test_accuracy": 0.90}}
    page("better", log("c", more={"test_samples": 10000}), log("d", more=made))
    equal(bold(), ["90.00 %"], "85 % and 90 % of 10,000 images")
    page("hardly", log("e", more={"test_samples": 100}), log("f", more={**made, "test_samples": 100}))
    equal(bold(), [], "85 % and 90 % of 100 images")


def speed_up_wants_two_runs():
    """A single run is compared with itself, at ratio 1."""
    for logs, wanted in ((["alone"], False), (["first", "second"], True)):
        page("speed-up", *(log(name) for name in logs))
        heads = [e.text for e in every("#table th[scope=col]")]
        equal([name in heads for name in ("samples/s", "speed-up", "efficiency")], [True, wanted, wanted], f"columns: {heads}")
        equal("Speed-up:" in one("#base").text, wanted, one("#base").text)
    no_complaints("one run and two")


def each_kind_of_device_has_its_measure():
    """All cores compared with one thread would give an efficiency above 100 %."""
    def on(*names):
        return {"devices": [{"worker": w, "device": device, "name": name} for w, (device, name) in enumerate(names)]}
    thread, cores = ("cpu", "AMD EPYC, 1 thread"), ("cl", "pthread-AMD EPYC, 2 units")
    page("kinds", log("one", speed=10000.0), log("all", speed=17000.0, more=on(cores)), log("two", workers=2, speed=18000.0),
         log("threads", speed=17000.0, more=on(("cpu", "AMD EPYC, 2 threads"))), log("mixed", workers=2, speed=5000.0, more=on(thread, cores)))
    equal([row[4:6] for row in rows()], [["1.00", "100 %"], ["1.00", "100 %"], ["1.80", "90 %"], ["1.00", "100 %"], ["1.00", "100 %"]], "kinds")
    check("(one, all, threads, mixed)" in one("#base").text.replace(";", ","), one("#base").text)
    no_complaints("kinds of device")


def on_paper():
    look(1280, 800, dark=True)
    three()
    b.execute_script("document.querySelectorAll('details.run').forEach((e) => { e.open = false; })")
    b.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    b.execute_script("dispatchEvent(new Event('beforeprint'))")
    equal(b.execute_script("return getComputedStyle(document.querySelector('#chips')).position"), "static", "the chips")
    check(not one("#line-in").is_displayed() and not one("#smooth").is_displayed(), "controls in print")
    check(b.execute_script("return [...document.querySelectorAll('details.run')].every((e) => e.open)"), "details that are closed in print")
    equal(b.execute_script("return [getComputedStyle(document.documentElement).getPropertyValue('--card').trim(), look.card]"), ["#ffffff"] * 2, "print uses the light theme")
    equal(b.execute_script("return getComputedStyle(document.querySelector('.card')).breakInside"), "avoid", "charts are split at the end of a page")
    b.execute_script("dispatchEvent(new Event('afterprint'))")
    check(b.execute_script("return [...document.querySelectorAll('details.run')].every((e) => !e.open)"), "details after printing")
    b.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    look(1280, 800)


def tables_say_that_they_scroll():
    look(390, 844)
    three()
    hints = [e.text for e in every(".hint")]
    check(len(hints) == 1 and "scroll sideways" in hints[0], f"hints on a phone: {hints}")
    look(2400, 844)
    wait_for(lambda: not every(".hint"), "no hint where the table fits")
    look(1280, 800)


def first_run():
    """The colour of the first run on the page, after a frame: only then does the page notice a change of theme."""
    return b.execute_async_script("requestAnimationFrame(() => arguments[0](look.runs[0]))")


def screenshots():
    path = three()
    in_all_looks(path, "report")
    colours = {}
    for dark in (True, False):  # on pages opened in this theme: an open page notices a change late
        look(1280, 800, dark=dark)
        visit(path)
        colours[dark] = first_run()
    light = colours[False]
    check(colours[True] != light, f"the first run is {light} in both themes")
    look(1280, 800, dark=True)
    wait_for(lambda: first_run() == colours[True], "the colours of dark")
    look(1280, 800)
    wait_for(lambda: first_run() == light, "the colours of light")
    equal(b.execute_script("return charts['loss-step'].data.datasets[0].backgroundColor"), light, "a chart in the light theme's colours")
    no_complaints("screenshots")


run([training_is_thin_and_the_test_set_bold, a_slider_smooths, speed_is_a_median_over_windows, a_colour_has_one_meaning, best_only_beyond_the_spread,
     speed_up_wants_two_runs, each_kind_of_device_has_its_measure, on_paper, tables_say_that_they_scroll, the_table_says_what_is_in_the_logs, charts_show_the_logs, chips_and_switches, the_timeline_zooms, a_trace_is_made_ready, ten_thousand_steps_are_thinned,
     harm_stays_text, a_command_of_several_processes_says_so, what_is_missing_is_said, real_logs, screenshots])
