"""lessons.py GRADSUM FOLDER: the lessons' pages (make lessons-html) and slides (make slides) in a real
browser.

They are next to the program, in build/lessons-html and build/slides. Screenshots are saved in FOLDER for inspection.
"""
import base64
import glob
import os
import re

from browser import (By, Keys, b, check, equal, every, folder, gradsum, in_all_looks, keys, look, no_complaints, one, run,
                     visit, wait_for)

SITE = os.path.join(os.path.dirname(gradsum), "lessons-html")
SLIDES = os.path.join(os.path.dirname(gradsum), "slides")


def lessons(folder):
    found = sorted(glob.glob(f"{folder}/[0-9][0-9]-*.html"))
    check(len(found) >= 13, f"{folder} has {len(found)} lessons")
    return found


def a_page_fits_every_window():
    """At any width: wide content scrolls in a separate box, and all pictures exist."""
    for path in [f"{SITE}/index.html", *lessons(SITE), f"{SITE}/files/lessons/in-one-file/train.c.html"]:
        name = os.path.basename(path)
        for width in (1280, 390):
            look(width, 800)
            visit(path)
            wide = b.execute_script("return document.documentElement.scrollWidth")
            check(wide <= width, f"{name}: {wide} px wide in a window of {width}")
        missing = b.execute_script("return [...document.images].filter((i) => !i.naturalWidth).map((i) => i.src)")
        equal(missing, [], f"{name}: missing pictures")
        check(name == "index.html" or "files/" in path or every("main img"), f"{name}: has no picture")
        equal([e for e in b.get_log("browser")], [], f"{name}: the console")
    look(1280, 800)


def the_way_through_the_lessons():
    visit(f"{SITE}/index.html")
    seen = []
    while every("nav.bottom [rel=next]"):
        one("nav.bottom [rel=next]").click()
        seen.append(b.current_url.split("/")[-1])
    equal(seen, [os.path.basename(path) for path in lessons(SITE)], "next, next, ...")
    one("nav.top [rel=prev]").click()
    equal(b.current_url.split("/")[-1], seen[-2], "previous")
    one("nav.top .all").click()
    equal(b.current_url.split("/")[-1], "index.html", "all lessons")


def a_lesson_leads_to_the_source():
    visit(f"{SITE}/07-all-reduce.html")
    link = [a for a in every("main a") if a.text == "src/sync/ring.c"][0]
    link.click()
    equal(one("h1").text, "src/sync/ring.c", "the page of a source file")
    check(len(every(".lines > span")) > 50, "lines of the source file")


def a_picture_moves():
    """Each moving picture has its page, which says how high it is; that of a sum begins to move when it is seen."""
    moving = 0
    for path in lessons(SITE):
        visit(path)
        for frame in every(".moving iframe"):
            moving += 1
            page = frame.get_attribute("src")
            check(os.path.exists(page.removeprefix("file://")), f"{path}: there is no {page}")
            equal(frame.find_element(By.XPATH, "..//a").get_attribute("href"), page, f"{path}: open alone")
    check(moving >= 8, f"{moving} moving pictures")
    look(1280, 800, calm=False)
    visit(f"{SITE}/07-all-reduce.html")
    frame = every(".moving iframe")[0]
    b.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    b.switch_to.frame(frame)
    wait_for(lambda: one("#where").text.startswith("round 6"), "the ring's last round")
    equal(len(every(".stage")), 1, "schemes in a frame")
    check(not one("h1").is_displayed(), "the frame has no head")
    needs = b.execute_script("return document.documentElement.scrollHeight")
    b.switch_to.default_content()
    check(frame.size["height"] >= needs, f"a frame of {frame.size['height']} px for {needs}")
    look(1280, 800)


def a_search_finds_sections():
    for path, up in ((f"{SITE}/12-inference.html", ""), (f"{SITE}/files/lessons/in-one-file/train.c.html", "../../../")):
        visit(path)
        keys("/")
        one("search input").send_keys("reduce-scatter neighbour")
        wait_for(lambda: len(every(".found a")) > 0, "something is found")
        found = [a.get_attribute("href") for a in every(".found a")]
        check(f"file://{SITE}/07-all-reduce.html#from-a-server-to-a-ring" in found, f"{up}: found {found}")
        one("search input").clear()
        one("search input").send_keys("zzzz")
        wait_for(lambda: "Nothing" in one(".found").text, "nothing is found")
    visit(f"{SITE}/12-inference.html")
    keys("/")
    one("search input").send_keys("halving doubling distance")
    wait_for(lambda: len(every(".found a")) > 0, "something is found")
    every(".found a")[0].click()
    check("#" in b.current_url, f"a section's address: {b.current_url}")


def screenshots():
    in_all_looks(f"{SITE}/07-all-reduce.html", "lesson-07")
    in_all_looks(f"{SITE}/index.html", "lessons")


# Parts of a slide outside its page, and letters of less than 14 px on a page of 1280 px.
OUTSIDE = """return [...document.querySelectorAll('section')].flatMap((page, i) => {
    const room = page.getBoundingClientRect(), foot = page.querySelector('footer').getBoundingClientRect();
    return [...page.querySelectorAll('h1, h2, p, li, pre, table, svg, .words')].filter((e) => {
        const r = e.getBoundingClientRect(), bottom = foot.height ? foot.top : room.bottom;
        return r.left < room.left || r.right > room.right + 1 || r.top < room.top || r.bottom > bottom + 1 || r.height < 10 ||
            e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 || parseFloat(getComputedStyle(e).fontSize) < 14;
    }).map((e) => `slide ${i + 1}: ${e.tagName} ${e.textContent.slice(0, 40)}`);
})"""


def each_slide_fits_its_page():
    for path in lessons(SLIDES):
        look(1280, 720)
        visit(path)
        equal(b.execute_script(OUTSIDE), [], os.path.basename(path))
        no_complaints(os.path.basename(path))
        slides = len(every("section"))
        check(slides >= 8, f"{path} has {slides} slides")
        pdf = base64.b64decode(b.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})["data"])
        equal(len(re.findall(rb"/Type */Page[^s]", pdf)), slides, f"{path}: printed pages")
        sizes = set(re.findall(rb"/MediaBox *\[([^]]*)\]", pdf))
        equal(sizes, {b"0 0 960 540"}, f"{path}: 16 to 9")


def at():
    """The slide that fills the window."""
    return b.execute_script("return 1 + [...document.querySelectorAll('article')].findIndex((a) =>"
                            " Math.abs(a.getBoundingClientRect().top) < 2)")


def keys_turn_the_slides():
    for size in ((1280, 720), (800, 600)):
        look(*size)
        visit(f"{SLIDES}/07-all-reduce.html")
        keys(Keys.ARROW_RIGHT, " ", Keys.PAGE_DOWN)
        equal(at(), 4, f"{size}: three slides forward")
        keys(Keys.ARROW_LEFT)
        equal(at(), 3, f"{size}: one slide back")
        keys(Keys.END, Keys.ARROW_RIGHT)
        equal(at(), len(every("article")), f"{size}: the last")
        keys(Keys.HOME, Keys.ARROW_LEFT)
        equal(at(), 1, f"{size}: the first")
    look(1280, 720)


run([a_page_fits_every_window, the_way_through_the_lessons, a_lesson_leads_to_the_source, a_picture_moves,
     a_search_finds_sections, each_slide_fits_its_page, keys_turn_the_slides, screenshots])
