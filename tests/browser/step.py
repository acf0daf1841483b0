"""step.py GRADSUM FOLDER: the pages of `gradsum step -o` in a real browser, used as a reader would use them.

The page is compared with the tables of `gradsum step --no-pause` for the same schemes, and its counters with the
formulas of the schemes' headers, which are written again here. Screenshots are saved in FOLDER for inspection.
"""
import math
import re

from browser import (ActionChains, By, Keys, Select, b, check, equal, every, folder, keys, look, no_complaints, one, program,
                     run, shift, shoot, visit, wait_for)

SCHEMES = ["ps", "sharded_ps", "ring", "tree", "recursive_doubling", "halving_doubling"]


# ---- the expected values ----


def formulas(scheme, n, floats):
    """rounds, messages, total bytes; bytes of the worker that sends most; the accuracy of the last figure"""
    b, up, p = 4 * floats, math.ceil(math.log2(n)), 2 ** int(math.log2(n))
    extra, down = n - p, int(math.log2(n))
    fold = 2 if extra else 0
    chunk = 8 * (n + 2)  # messages of unequal chunks differ by one element
    return {
        "ps": (2, 2 * (n - 1), 2 * (n - 1) * b, (n - 1) * b, 0),
        "sharded_ps": (2, 2 * n * (n - 1), 2 * (n - 1) * b, 2 * (n - 1) / n * b, chunk),
        "ring": (2 * (n - 1), 2 * n * (n - 1), 2 * (n - 1) * b, 2 * (n - 1) / n * b, chunk),
        "tree": (2 * up, 2 * (n - 1), 2 * (n - 1) * b, up * b, 0),
        "recursive_doubling": (down + fold, p * down + 2 * extra, (p * down + 2 * extra) * b,
                               (down + (extra > 0)) * b, 0),
        "halving_doubling": (2 * down + fold, 2 * p * down + 2 * extra, 2 * (p - 1 + extra) * b,
                             (2 * (p - 1) / p + (extra > 0)) * b, chunk),
    }[scheme]


def gradients_in(cell, n):
    """How many gradients a cell of the tables holds: "all*", "0+2-4", or, in wide tables, their number."""
    return n if cell == "all" else sum(int(w.split("-")[-1]) - int(w.split("-")[0]) + 1 for w in cell.split("+"))


def rounds_of(scheme, n, floats):
    """For each round as the terminal shows it: messages and bytes so far, and [worker]: [(first, count, sum of how many)]"""
    head, *rounds = re.split(r"\nround \d+ of \d+\n",
                             program("step", "--sync", scheme, "--workers", str(n), "--size", str(floats), "--no-pause"))
    chunks = {name: (int(first), int(last or first) - int(first) + 1)
              for name, first, last in re.findall(r"(\w+) = (\d+)(?:\.\.(\d+))?", head)}
    names, numbers = list(chunks), "cells   5:" in head
    equal(sum(count for _, count in chunks.values()), floats, f"{scheme}, {n}: the floats of all chunks")
    found, messages, total = [], 0, 0
    for text in [head, *rounds]:
        for first, last in re.findall(r"\d+ -> \d+: ([a-z]\d*)(?:-([a-z]\d*))?", text):
            messages += 1
            total += 4 * sum(chunks[c][1] for c in names[names.index(first):names.index(last or first) + 1])
        table = re.split(r"^(?:before|after) ", text.split("\n\nsent by")[0], maxsplit=1, flags=re.M)[1]
        holds = {worker: [] for worker in range(n)}
        for worker, cells in re.findall(r"^worker (\d+) +(.*)", table, flags=re.M):
            for cell in cells.replace("*", "").split():
                count = int(cell) if numbers else gradients_in(cell, n)
                holds[int(worker)].append((*chunks[names[len(holds[int(worker)])]], count))
        for worker, parts in holds.items():
            equal(len(parts), len(names), f"{scheme}, {n}: the chunks of worker {worker}")
        found.append({"messages": messages, "bytes": total, "holds": holds})
    return found


def page_of(n, model="softmax", sync="ring"):
    path = f"{folder}/step-{model}-{n}.html"
    program("step", "--sync", sync, "--workers", str(n), "--model", model, "-o", path)
    visit(path)
    return b.execute_script("return data.floats")


def stage(i):
    return every(".stage")[i]


def choose(i, scheme):
    Select(stage(i).find_element(By.TAG_NAME, "select")).select_by_value(scheme)


def counters(i, column="so"):
    read = "return Object.fromEntries([...arguments[0].querySelectorAll('[data-cost]')].map((line) =>" \
           " [line.dataset.cost, line.querySelector('.' + arguments[1]).textContent]))"
    texts = b.execute_script(read, stage(i), column)
    return {k: int(v.replace(",", "")) for k, v in texts.items() if k != "seconds"}


def cells(i):
    """[worker][chunk]: the number of gradients that the cell shows"""
    read = "return [...arguments[0].querySelectorAll('.cell[data-worker]')].map((e) =>" \
           " [+e.dataset.worker, parseInt(e.querySelector('.count').textContent)])"
    found = {}
    for worker, count in b.execute_script(read, stage(i)):
        found.setdefault(worker, []).append(count)
    return found


# ---- the tests ----


def every_round_is_what_the_terminal_shows(n, model="softmax"):
    floats = page_of(n, model)
    for scheme in SCHEMES:
        choose(0, scheme)
        choose(1, scheme)
        one("#first").click() if one("#first").is_enabled() else None
        wanted = rounds_of(scheme, n, floats)
        bounds = b.execute_script(f"return schemes.find((s) => s.name === '{scheme}').bounds")
        for k, now in enumerate(wanted):
            what = f"{scheme}, {n} workers, {model}, round {k}"
            if k > 0:
                one("#next").click()
            so_far = counters(0)
            equal((so_far["rounds"], so_far["messages"], so_far["bytes"]), (k, now["messages"], now["bytes"]), what)
            shown = cells(0)
            for worker, parts in now["holds"].items():
                held = [next(c for at, size, c in parts if at <= first < at + size) for first in bounds[:-1]]
                equal(shown[worker], held, f"{what}, worker {worker}")
        check(not one("#next").is_enabled(), f"{scheme}: there is a round after the last one")
        rounds, messages, total, most, near = formulas(scheme, n, floats)
        for column in ("so", "all"):
            c = counters(0, column)
            equal((c["rounds"], c["messages"], c["bytes"]), (rounds, messages, total), f"{scheme}, {n}: in all")
            check(abs(c["most"] - most) <= near or (scheme == "tree" and c["most"] <= most),
                  f"{scheme}, {n}: the busiest sends {c['most']}, wanted {most}")
        check("≠" not in stage(0).text, f"{scheme}, {n}: the counts differ from the formula")
    no_complaints(f"{n} workers, {model}")


def gradients_add_up(n):
    """Averages over neighbours add up as the gradients do: in each chunk, to the 4 digits that are stored."""
    page_of(n)
    worst = b.execute_script("""
        let worst = 0;
        for (const s of schemes) for (let c = 0; c < s.chunks; c++) {
            const start = s.held[0].map((row) => values(row[c].row).bars), end = s.held[s.rounds].map((row) => values(row[c].row).bars);
            for (let i = 0; i < start[0].length; i++) {
                const sum = start.reduce((x, bars) => x + bars[i], 0), size = start.reduce((x, bars) => x + Math.abs(bars[i]), 0);
                for (const bars of end) worst = Math.max(worst, Math.abs(bars[i] - sum) / (1e-9 + size));
            }
        }
        return worst""")
    check(worst < 2e-3, f"{n} workers: a sum is off by {worst} of its parts")


def keys_and_slider():
    page_of(4)
    done = lambda i: int(stage(i).get_attribute("data-done"))
    keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    equal((done(0), done(1)), (3, 2), "3 times right")
    keys(Keys.ARROW_LEFT)
    equal((done(0), done(1)), (2, 2), "then left")
    keys(Keys.HOME)
    equal((done(0), done(1)), (0, 0), "Home")
    keys(Keys.END)
    equal((done(0), done(1)), (6, 2), "End")
    slider = one("#slider")
    ActionChains(b).move_to_element(slider).click().perform()
    equal(done(0), 3, "a click in the middle of the slider")
    slider.send_keys(Keys.ARROW_LEFT)
    equal(done(0), 2, "the left key on the slider goes back a round")
    ActionChains(b).drag_and_drop_by_offset(slider, slider.size["width"] // 2, 0).perform()
    equal(done(0), 6, "the slider at its end")

    keys(Keys.HOME)
    shift(Keys.ARROW_DOWN)
    shift(Keys.ARROW_DOWN)
    shift(Keys.ARROW_RIGHT)
    check("worker 1, chunk b" in one("#tip").text and "the gradient of worker 1 alone" in one("#tip").text,
          f"under the cursor: {one('#tip').text}")
    shoot("cursor")
    keys(Keys.ESCAPE)
    check(not one("#tip").is_displayed(), "Esc closes the values")

    keys(Keys.END)
    norms = set()
    for cell in every(".stage:first-child .cell[data-chunk='2']"):
        ActionChains(b).move_to_element(cell).perform()
        check("the sum of all 4 gradients" in one("#tip").text, f"on hover: {one('#tip').text}")
        norms.add(one("#tip .norm").text)
    equal(len(norms), 1, "norms of the same sum")
    no_complaints("keys and slider")


def it_moves():
    look(1280, 800, calm=False)
    page_of(3)
    Select(one("#speed")).select_by_value("0.5")  # 14 s in total: it is paused earlier
    one("#play").click()
    equal(one("#play").get_attribute("aria-pressed"), "true", "playing")
    wait_for(lambda: b.execute_script("return [...document.querySelectorAll('.token')].some((t) => t.style.display !== 'none')"),
             "a message under way")
    keys(" ")
    wait_for(lambda: one("#play").get_attribute("aria-pressed") == "false", "paused by the key")
    Select(one("#speed")).select_by_value("4")
    b.execute_script("arguments[0].focus()", one("#play"))
    keys(" ")
    wait_for(lambda: stage(0).get_attribute("data-done") == "4", "played to the end")
    equal(one("#play").get_attribute("aria-pressed"), "false", "stops at the end")
    keys(Keys.HOME, Keys.ARROW_RIGHT)
    wait_for(lambda: stage(0).get_attribute("data-done") == "1", "one round")
    no_complaints("animation")
    look(1280, 800)


def few_bytes_are_faster_for_a_large_model():
    floats = page_of(4, "mlp", "ps")
    equal(stage(0).get_attribute("data-scheme"), "ps", "the scheme of --sync comes first")
    equal(stage(1).get_attribute("data-scheme"), "ring", "the scheme next to it")
    check(floats > 500000, f"mlp has {floats} floats")
    Select(one("#clock")).select_by_value("time")
    b.find_element(By.TAG_NAME, "h1").click()
    while stage(1).get_attribute("data-done") != "6":
        keys(Keys.ARROW_RIGHT)
    equal(stage(0).get_attribute("data-done"), "0", "the server's round when the ring is done")
    shoot("time")
    no_complaints("modelled time")


def screenshots():
    for name, n, at, first, second in (("ring-ps-3", 3, 1.5, "ring", "ps"), ("ring-ps-4", 4, 1.55, "ring", "ps"),
                                       ("doubling-8", 8, 1.45, "halving_doubling", "recursive_doubling"),
                                       ("fold-6", 6, 2.5, "halving_doubling", "tree"),
                                       ("ring-tree-16", 16, 9.5, "ring", "tree")):
        for kind, size in (("wide", (1280, 800)), ("narrow", (390, 844))):
            for dark in (False, True):
                look(*size, dark=dark)
                page_of(n)
                choose(0, first)
                choose(1, second)
                b.execute_script(f"jump({at})")
                shoot(f"{name}-{kind}-{'dark' if dark else 'light'}")
    look(1280, 800)
    light = b.execute_script("return getComputedStyle(document.body).backgroundColor")
    look(1280, 800, dark=True)
    check(light != b.execute_script("return getComputedStyle(document.body).backgroundColor"), "the dark theme equals the light one")
    no_complaints("screenshots")


def no_room_is_no_mistake():
    """At any window width while the page is open: no width below 0, and no message in the console."""
    for workers in (3, 16):
        page_of(workers)
        for width in (640, 300, 200, 120, 60, 1280):
            look(width, 500)
            widths = b.execute_async_script("""requestAnimationFrame(() => requestAnimationFrame(() => arguments[0](
                [...document.querySelectorAll('svg.draw [width]')].map((e) => +e.getAttribute('width')))))""")
            check(widths and min(widths) >= 0, f"{workers} workers, {width} px: a width of {min(widths or [0])}")
        no_complaints(f"{workers} workers, narrow windows")
    look(1280, 800)


def another_model_is_another():
    for model, other in (("softmax", "mlp"), ("mlp", "softmax")):
        page_of(4, model)
        said = one("#try").text
        check(f"--model {other}" in said and f"--model {model}" not in said, f"{model}: {said}")


def all_schemes():
    for n, model in ((3, "softmax"), (4, "softmax"), (8, "softmax"), (5, "mlp")):
        every_round_is_what_the_terminal_shows(n, model)
    for n in (2, 7):
        gradients_add_up(n)


run([no_room_is_no_mistake, another_model_is_another, all_schemes, keys_and_slider, it_moves, few_bytes_are_faster_for_a_large_model, screenshots])
