"""browser_report.py GRADSUM FOLDER: the page of `gradsum report` in a real browser, of logs whose content is known.

What its tables and charts show is compared with what was written into the logs (made_logs.py); and the pages of logs that
training wrote, of `compare` and of `sweep`, with their JSON.
"""
import json
import os
import shutil

from browser import (ActionChains, By, Keys, Select, b, check, equal, every, folder, keys, look, no_complaints, one, program, run,
                     shift, shoot, visit, wait_for)
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


def rows(css="#table"):
    return [[cell.text for cell in line.find_elements(By.CSS_SELECTOR, "th, td")] for line in every(f"{css} tbody tr")]


def chart(chart_id, what):
    return b.execute_script(f"return charts['{chart_id}'].{what}")


def painted(css):
    """How many different colours a canvas has; 1 is an empty one."""
    return b.execute_script("""const c = document.querySelector(arguments[0]), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 24 | d[i + 1] << 16 | d[i + 2] << 8 | d[i + 3]); return seen.size""", css)


# ---- what is tested ----


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
    for canvas in every("canvas"):
        if canvas.is_displayed():
            check(painted(f"#{canvas.get_attribute('id')}") > 3, f"{canvas.get_attribute('id')} is empty")
    made = one("#runs-made").text
    for word in ("--model 'conv 8 5x5, relu, max_pool 2, flatten, linear 10' --devices cpu,cpu", "openblas 0.3.21; opencl PoCL 3.1; gloo 0.5.0",
                 "AMD EPYC, 1 thread", "2026-11-21T13:31:56Z"):
        check(word in made, f"not said: {word}")
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
    check("sync ring" in one("#tip").text and "420 µs" in one("#tip").text, f"beside the pointer: {one('#tip').text}")
    Select(one("#line-run")).select_by_visible_text("one")
    equal(b.execute_script("return timeline.rows.length"), 3, "rows of one worker")
    no_complaints("the timeline")


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
    check(HARM in one("#runs-made").text and HARM in one("#lead").text, "the model's text is not shown as it is")
    equal(b.execute_script("return [document.title, document.querySelectorAll('img').length]"), ["gradsum: harm", 0], "harm")
    no_complaints("harm")


def what_is_missing_is_said():
    path = log("damaged", workers=2, more={"ended": None, "memory": None})
    with open(f"{path}/metrics.jsonl", "r+") as f:
        f.truncate(os.path.getsize(f"{path}/metrics.jsonl") - 30)
    with open(f"{path}/trace.json", "r+") as f:
        f.truncate(os.path.getsize(f"{path}/trace.json") // 2)
    page("damaged", path)
    for word in ("has not ended", "The last line of metrics.jsonl is cut off", "trace.json is cut off"):
        check(word in one("#notes").text, f"not said: {word}: {one('#notes').text}")
    check(b.execute_script("return timeline.events.length") > 20, "bars before the cut")
    check(not one("#memory").is_displayed(), "memory that is not known is shown")
    shoot("damaged")
    only = log("only-run", trace_steps=0)
    os.remove(f"{only}/metrics.jsonl")
    page("only-run", only)
    check(not one("#curves").is_displayed() and not one("#timeline").is_displayed(), "sections without content")
    no_complaints("damaged logs")


def real_logs():
    """What training wrote is what the page shows; the messages of a ring have their arrows."""
    path = f"{folder}/logs/trained"
    shutil.rmtree(path, ignore_errors=True)
    program("train", "--model", "softmax", "--devices", "cpu,cpu,cpu", "--sync", "ring", "--threads", "1", "--epochs", "1", "--log", path)
    page("trained", path)
    with open(f"{path}/metrics.jsonl") as f:
        steps = [e for e in map(json.loads, f) if e["kind"] == "step"]
    points = chart("loss-step", "data.datasets[0].data.map((p) => [p.x, p.y])")
    equal([p[0] for p in points], [e["step"] for e in steps], "steps")
    check(max(abs(p[1] - e["loss"]) for p, e in zip(points, steps)) < 1e-3, "losses")
    equal(one("#notes").text, "", "complaints")
    equal(b.execute_script("return [timeline.workers, timeline.steps]"), [[f"worker {w} (cpu)" for w in range(3)], [4, 5, 6, 7]], "the timeline")
    equal(b.execute_script("return timeline.flows.length"), 4 * 3 * 2 * 2, "arrows of 4 steps, 3 workers, 2 (3 - 1) rounds")
    check(b.execute_script("return timeline.flows.every((f) => f.received >= f.sent)"), "a message comes before it was sent")
    check("41,888" in rows()[0], "2 (3 - 1) / 3 of 7850 gradients and 4 sums, as f32")
    check(one("#memory").is_displayed() and "--sync ring" in one("#runs-made").text, "memory and the command")
    no_complaints("a trained run")


def a_comparison():
    path = f"{folder}/compare.html"
    text = program("compare", "--model", "softmax", "--threads", "1", "--epochs", "1", "--devices-list", "cpu; cpu,cpu", "--report", path, "--json")
    wanted = [json.loads(line) for line in text.splitlines()]
    visit(path)
    for want, row in zip(wanted, rows()):
        equal(row[:6], [want["devices"], str(want["workers"]), "128", f"{want['samples_per_s']:,.0f}", f"{want['speed_up']:.2f}", f"{100 * want['efficiency']:.0f} %"],
              "as the terminal says")
    shares = chart("time", "data.datasets.map((d) => d.data[0])")
    check(abs(shares[2] / sum(shares) - wanted[0]["share"]["backward"]) < 1e-3, "share of backward")
    check("--devices-list 'cpu; cpu,cpu'" in one("#command").text, one("#command").text)
    in_all_looks(path, "compare")
    no_complaints("a comparison")


def a_sweep():
    path = f"{folder}/sweep.html"
    text = program("sweep", "--batch", "32,128,512,2048", "--epochs", "3", "--target", "80", "--report", path, "--json")
    wanted = [e for e in map(json.loads, text.splitlines()) if e["event"] == "run"]
    visit(path)
    for want, row in zip(wanted, rows("#sweep-table")):
        equal(row[:3], [str(want["batch"]), "0.05", f"{want['steps_to_target']:,}" if want["reached"] else "never"], "a row of the sweep")
    reached, never = ([w for w in wanted if w["reached"] is is_so] for is_so in (True, False))
    check(reached and never, "one run should reach the target, and one should not")
    equal(chart("sweep-steps", "data.datasets[0].data.map((p) => [p.x, p.y])"), [[w["batch"], w["steps_to_target"]] for w in reached], "measured")
    equal(chart("sweep-steps", "data.datasets[1].data.map((p) => p.x)"), [w["batch"] for w in never], "crosses")
    ideal = chart("sweep-steps", "data.datasets[2].data.map((p) => p.x * p.y)")
    check(max(ideal) - min(ideal) < 1e-6 * ideal[0] and abs(ideal[0] - reached[0]["batch"] * reached[0]["steps_to_target"]) < 1e-6 * ideal[0], "the ideal")
    for axis in "xy":
        equal(chart("sweep-seconds", f"options.scales.{axis}.type"), "logarithmic", "axes")
    in_all_looks(path, "sweep")
    no_complaints("a sweep")


def in_all_looks(path, name):
    for kind, size in (("wide", (1280, 800)), ("narrow", (390, 844))):
        for dark in (False, True):
            look(*size, dark=dark)
            visit(path)
            shoot(f"{name}-{kind}-{'dark' if dark else 'light'}", whole=True)
    look(1280, 800)


def first_run():
    """The colour of the first run, as the page has it: it hears of another look when it draws a frame, which nobody asks for else."""
    return b.execute_async_script("requestAnimationFrame(() => arguments[0](look.runs[0]))")


def screenshots():
    path = three()
    in_all_looks(path, "report")
    colours = {}
    for dark in (True, False):  # read from pages that were opened in this look: one that is open hears of it some time later
        look(1280, 800, dark=dark)
        visit(path)
        colours[dark] = first_run()
    light = colours[False]
    check(colours[True] != light, f"the first run is {light} in the dark as in the light")
    look(1280, 800, dark=True)
    wait_for(lambda: first_run() == colours[True], "the colours of dark")
    look(1280, 800)
    wait_for(lambda: first_run() == light, "the colours of light")
    equal(b.execute_script("return charts['loss-step'].data.datasets[0].borderColor"), light, "a chart in the colours of light")
    no_complaints("screenshots")


run([the_table_says_what_is_in_the_logs, charts_show_the_logs, chips_and_switches, the_timeline_zooms, ten_thousand_steps_are_thinned,
     harm_stays_text, what_is_missing_is_said, real_logs, a_comparison, a_sweep, screenshots])
