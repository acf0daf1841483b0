"""sweep.py GRADSUM FOLDER: the pages of `gradsum sweep -o` in a real browser, with its JSON."""
import json

from browser import b, chart, check, equal, folder, in_all_looks, light, no_complaints, one, program, rows, run, visit


def a_sweep():
    path = f"{folder}/sweep.html"
    text = program("sweep", "--batch", "32,128,512,2048", "--epochs", "3", "--target", "80", "-o", path, "--json")
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
    ramp = [light(c)[0] for c in b.execute_script("return runs.map((r) => r.colour)")]
    check(ramp == sorted(ramp, reverse=True) and min(x - y for x, y in zip(ramp, ramp[1:])) > 0.05, f"the ramp of the batches: {ramp}")
    for what in ("loss", "accuracy"):
        equal([chart(f"{what}-{x}", "scales.x.type") for x in ("step", "time")], ["logarithmic", "linear"], f"axes of {what}")
    limits = [chart(f"accuracy-{x}", "scales.y.min + ' ' + charts['accuracy-step'].scales.y.max") for x in ("step", "time")]
    equal(limits[0], limits[1], "one axis of accuracy")
    for axis in "xy":
        equal(chart("sweep-seconds", f"options.scales.{axis}.type"), "logarithmic", "axes")
    in_all_looks(path, "sweep")
    no_complaints("a sweep")


def a_sweep_of_seeds():
    path = f"{folder}/seeds.html"
    text = program("sweep", "--batch", "32,128,512,2048", "--epochs", "3", "--target", "80", "--seeds", "3", "-o", path, "--json")
    wanted = [e for e in map(json.loads, text.splitlines()) if e["event"] == "batch"]
    check(len(wanted) == 4, "a line for each batch")
    visit(path)
    for want, row in zip(wanted, rows("#sweep-table")):
        equal(row[2], f"{want['reached']} of 3", "seeds that reached it")
        median = want["steps_to_target"]["median"]
        equal(row[3], "never" if median is None else f"{median:,g}", "median steps")
    some = [w for w in wanted if w["reached"] > 0]
    bars = chart("sweep-steps", "data.datasets.at(-1).data.map((p) => Number.isNaN(p.y) ? null : p.y)")
    equal(bars, [y for w in some for y in (w["steps_to_target"]["least"], w["steps_to_target"]["most"], None)], "bars")
    check("median" in one("#sweep-seeds").text and one("#sweep-seeds").is_displayed(), "the meaning of the bars")
    in_all_looks(path, "seeds")
    no_complaints("a sweep of seeds")


run([a_sweep, a_sweep_of_seeds])
