"""A browser without a window, for browser_*.py: NAME.py GRADSUM FOLDER. Screenshots are saved in FOLDER.

Without a browser the tests are skipped with a message and exit with 0; with GRADSUM_BROWSER=required, with 1.
"""
import os
import subprocess
import sys
import time

gradsum, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
checks = 0


def skip(why):
    print(f"test-browser: skipped: {why}")
    sys.exit(1 if os.environ.get("GRADSUM_BROWSER") == "required" else 0)


try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select
except ImportError as why:
    skip(why)


def check(is_true, what):
    global checks
    checks += 1
    if not is_true:
        raise AssertionError(what)


def equal(got, wanted, what):
    check(got == wanted, f"{what}: {got!r}, wanted {wanted!r}")


# ---- the browser ----


def start():
    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    except WebDriverException as why:
        skip(f"no browser starts: {str(why).strip()}")


def in_all_looks(path, name):
    for kind, size in (("wide", (1280, 800)), ("narrow", (390, 844))):
        for dark in (False, True):
            look(*size, dark=dark)
            visit(path)
            shoot(f"{name}-{kind}-{'dark' if dark else 'light'}", whole=True)
    look(1280, 800)


def run(tests):
    """Runs all tests, whose names say what they test; then the browser ends."""
    try:
        look(1280, 800)
        for test in tests:
            test()
    finally:
        b.quit()
    print(f"test-browser: {os.path.basename(sys.argv[0])}: {checks} checks hold; screenshots are in {sys.argv[2]}")


def look(width, height, dark=False, calm=True):
    b.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                      {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    b.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
        {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}]})


def shoot(name, whole=False):
    """A screenshot of the window, or of the whole page."""
    fits = b.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    check(fits, f"{name}: the page is wider than the window")
    if whole:
        b.execute_script("scrollTo(0, 0)")
        size = b.execute_script("return [innerWidth, document.documentElement.scrollHeight]")
        shown = b.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {
            "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}})
        with open(f"{folder}/{name}.png", "wb") as f:
            f.write(__import__("base64").b64decode(shown["data"]))
    else:
        check(b.save_screenshot(f"{folder}/{name}.png"), f"{name}: no screenshot")


def no_complaints(what):
    log = b.get_log("browser")
    equal(log, [], f"{what}: the console")
    loaded = b.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
    equal([name for name in loaded if not name.startswith("data:")], [], f"{what}: loaded from a network")


def program(*words):
    """Runs gradsum WORDS, which must succeed; returns its standard output"""
    return subprocess.run([gradsum, *words], check=True, capture_output=True, text=True, cwd=folder).stdout


def visit(path):
    b.get(f"file://{path}")


def one(css):
    return b.find_element(By.CSS_SELECTOR, css)


def every(css):
    return b.find_elements(By.CSS_SELECTOR, css)


def rows(css="#table"):
    return [[cell.text for cell in line.find_elements(By.CSS_SELECTOR, "th, td")] for line in every(f"{css} tbody tr")]


def chart(chart_id, what):
    return b.execute_script(f"return charts['{chart_id}'].{what}")


def light(hex_colour):
    """L, a and b of Oklab (Ottosson, 2020): equal distances look about equally different."""
    r, g, bl = (((c / 255 + 0.055) / 1.055) ** 2.4 if c > 10 else c / 255 / 12.92 for c in (int(hex_colour[i:i + 2], 16) for i in (1, 3, 5)))
    l, m, s = ((0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * bl) ** (1 / 3), (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * bl) ** (1 / 3),
               (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * bl) ** (1 / 3))
    return (0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s, 1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s)


def keys(*what):
    ActionChains(b).send_keys(*what).perform()


def shift(key):
    ActionChains(b).key_down(Keys.SHIFT).send_keys(key).key_up(Keys.SHIFT).perform()


def wait_for(is_so, what):
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError(f"not within 30 s: {what}")


b = start()
