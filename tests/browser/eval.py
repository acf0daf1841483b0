"""eval.py GRADSUM FOLDER: the page of `gradsum eval -o` in a real browser.

What it shows is compared with what `gradsum eval --confusion --json` prints. Screenshots are left in FOLDER.
"""
import json

from browser import b, check, equal, every, folder, in_all_looks, no_complaints, one, program, run, visit

WEIGHTS = f"{folder}/eval.safetensors"
DATA = "colour-fashion-small"


def train():
    program("train", "--model", "softmax", "--data", DATA, "--steps", "20", "--threads", "1", "--save", WEIGHTS)
    program("eval", "--load", WEIGHTS, "--data", DATA, "-o", f"{folder}/eval.html")
    text = program("eval", "--load", WEIGHTS, "--data", DATA, "--confusion", "--json", "--devices", "cpu,cpu")
    return json.loads(text)


def the_matrix_is_the_terminals():
    wanted = train()
    visit(f"{folder}/eval.html")
    rows = [[int(cell.text) for cell in row.find_elements("css selector", "td")[:-1]] for row in every("#matrix tbody tr")]
    equal(rows, wanted["confusion"], "the matrix")
    check(f"{100 * wanted['test_accuracy']:.2f} %" in one("#lead").text, "the accuracy is in the first sentence")
    no_complaints("eval")


def mistakes_come_most_first():
    counts = [int(row.find_elements("css selector", "td")[2].text) for row in every("#mistakes tbody tr")]
    equal(counts, sorted(counts, reverse=True), "the order of the mistakes")
    check(len(counts) == 12 and counts[-1] > 0, "twelve mistakes")


def the_worst_are_drawn():
    worst = b.execute_script("return data.worst")
    equal(len(worst), 24, "samples")
    losses = [w["loss"] for w in worst]
    equal(losses, sorted(losses, reverse=True), "the order of the samples")
    colours = b.execute_script("""return [...document.querySelectorAll('figure canvas')].map((c) =>
        new Set(Array.from(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer))).size)""")
    check(len(colours) == 24 and min(colours) > 20, f"pictures instead of areas of one colour: {colours}")
    in_all_looks(f"{folder}/eval.html", "eval")
    no_complaints("eval")


run([the_matrix_is_the_terminals, mistakes_come_most_first, the_worst_are_drawn])
