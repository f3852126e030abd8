"""Opens report.html in a real browser and uses it like a reader: browser.py WORK CHROMIUM SCREENSHOTS

The checks rely only on the visible parts of the page, not on its implementation.
"""
import json, math, re, sys, time
from pathlib import Path
from urllib.parse import parse_qs

from playwright.sync_api import sync_playwright

work, chromium, screenshots = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
report = json.loads((work / "report.json").read_text())
subjects = {s["id"]: s for s in report["subjects"]}
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


class OpenPage:
    """An open page, with its console messages and requests; fails on exit if it did anything forbidden."""

    def __init__(self, browser, file, fragment="", width=1280, **emulate):
        # Each page has a new context, because a view must depend only on the address.
        self.width = width
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **emulate)
        self.page = self.context.new_page()
        self.messages, self.requests = [], []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        start = time.monotonic()
        self.page.goto(f"file://{work / file}{fragment}")
        self.page.wait_for_function("document.documentElement.dataset.ready === 'yes'")
        self.load_s = time.monotonic() - start

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            assert not self.messages, self.messages
            assert all(url.startswith(("file://", "data:")) for url in self.requests), self.requests
            assert sum(url.startswith("file://") for url in self.requests) <= 1 + self.reloads, self.requests
        self.context.close()

    reloads = 0

    def fragment(self):
        # Read from the page itself, because the driver's copy of the address is updated with a delay.
        return parse_qs(self.page.evaluate("location.hash.slice(1)"))

    def strips(self):
        return self.page.eval_on_selector_all(".time", "all => all.map((e) => e.dataset.id)")

    def marks(self):
        return self.page.eval_on_selector_all(".tradeoff [data-id]", "all => all.map((e) => e.dataset.id)")

    def axis(self):
        """Returns the labels of the time axis, from left to right."""
        return self.page.locator(".time svg").last.locator("text[text-anchor=middle]").all_text_contents()

    def point_across(self, canvas, columns=30, point=None):
        """Yields the text of the box while a pointer or finger moves across a strip, at most once per column.

        The height of the ticks depends on the machine, so each column is tried at several heights.
        """
        canvas.scroll_into_view_if_needed()
        area = canvas.bounding_box()
        for i in range(columns):
            for j in range(8):
                x, y = area["x"] + area["width"] * (i + 0.5) / columns, area["y"] + area["height"] * (j + 0.5) / 8
                (point or self.page.mouse.move)(x, y)
                if self.page.locator("#tip").is_visible():
                    yield self.page.locator("#tip").text_content()
                    break

    def check_no_sideways_scrolling(self):
        # Compared with the width of the screen, because a phone lays out a page that is too wide on a wider viewport.
        width = self.page.evaluate("document.documentElement.scrollWidth")
        assert width <= self.width, (width, self.width)
        scrolling = self.page.evaluate(
            "[...document.querySelectorAll('body *')].filter((e) => e.scrollWidth > e.clientWidth + 1"
            " && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)).map((e) => e.outerHTML.slice(0, 80))"
        )
        assert not scrolling, scrolling


def check_box(text, report=report):
    """Compares the text in the box of a tick with the report."""
    name, index, instance, tick, due, lateness, unit = re.fullmatch(
        r"(\S+), round (\d+)(?:, instance (\d+))?, tick (\d+)\ndue ([\d.]+) s after the start\nlate ([\d.-]+) (\w+)", text
    ).groups()
    subject = next(s for s in report["subjects"] if s["name"] == name.partition("*")[0])
    assert (instance is not None) == (subject["instances"] > 1), text
    r = next(r for r in subject["rounds"] if (r["index"], r["instance"]) == (int(index), int(instance or 0)))
    ticks = r.get("tick") or range(r["first_tick"], r["first_tick"] + len(r["lateness_ns"]))
    exact = r["lateness_ns"][list(ticks).index(int(tick))]
    # A tick below the tail is packed in eight bits with an error of at most 1/256, and shown with three digits.
    magnitude = abs(float(lateness))
    digit = 10 ** (math.floor(math.log10(magnitude)) - 2) if magnitude else 0
    assert abs(float(lateness) * UNITS[unit] - exact) <= abs(exact) / 256 + digit / 2 * UNITS[unit] + 1, (text, exact)
    deadline = (r["start_ns"] + int(tick) * subject["period_ns"]) / 1e9
    assert abs(float(due) - deadline) < 2e-6, (text, deadline)


def use_pages(browser):
    with OpenPage(browser, "report.html", color_scheme="light") as o:
        page = o.page
        answers = page.locator(".answers li").all_text_contents()
        assert len(answers) == len(subjects) and all("late" in a and "of one core" in a for a in answers), answers
        assert set(o.strips()) == set(o.marks()) == set(subjects)
        assert page.evaluate("document.querySelector('.tradeoff').getBoundingClientRect().top < innerHeight"), "the answer is not on the first screen"
        order = page.evaluate("['h1', '.command', '.numbers', '.tradeoff', '.percentiles', '.answers']"
                              ".map((part) => document.querySelector(part).getBoundingClientRect().top)")
        assert order == sorted(order) and order[2] < 400, f"the answer and the table come first: {order}"
        title = page.title()
        assert "500us" in title and report["started_utc"][:10] in title and report["host"]["cpu_model"] in title, title
        assert any(s["name"] in title for s in subjects.values()), title
        check_accessibility(page)
        page.screenshot(path=screenshots / "light-1280.png", full_page=True)

        # Switch a subject off and on.
        hidden = next(iter(subjects))
        box = page.locator(f".switches input[value='{hidden}']")
        box.click()
        assert set(o.strips()) == set(o.marks()) == set(subjects) - {hidden}
        assert o.fragment()["off"] == [hidden]
        box.click()
        assert set(o.strips()) == set(subjects) and "off" not in o.fragment()

        # Point at ticks across a strip. The box shows values of the report.
        canvas = page.locator(".time canvas").first
        boxes = set(o.point_across(canvas))
        assert len(boxes) > 10, boxes
        for text in boxes:
            check_box(text)
        page.mouse.move(0, 0)
        assert not page.locator("#tip").is_visible()
        # Point at a mark of the trade-off.
        page.locator(f".tradeoff [data-id='{hidden}']").hover(force=True)
        assert "CPU per tick" in page.locator("#tip").text_content()

        # Zoom in by dragging and with buttons, and zoom out again.
        full_axis = o.axis()
        canvas.scroll_into_view_if_needed()
        area = canvas.bounding_box()
        page.mouse.move(area["x"] + area["width"] * 0.25, area["y"] + 30)
        page.mouse.down()
        page.mouse.move(area["x"] + area["width"] * 0.4, area["y"] + 40, steps=4)
        assert page.locator(".brush:visible").count() == 1
        page.mouse.move(area["x"] + area["width"] * 0.5, area["y"] + 40, steps=4)
        page.mouse.up()
        (dragged,) = o.fragment()["r"]
        low, high = map(float, dragged.split(","))
        rounds = len({r["index"] for r in report["subjects"][0]["rounds"]})
        assert abs(low - rounds * 0.25) < 0.1 and abs(high - rounds * 0.5) < 0.1, dragged
        assert o.axis() != full_axis
        page.screenshot(path=screenshots / "zoomed-1280.png", full_page=True)
        page.get_by_role("button", name="later").click()
        assert o.fragment()["r"] != [dragged]
        page.locator(".time canvas").first.dblclick()
        assert "r" not in o.fragment() and o.axis() == full_axis
        page.get_by_role("button", name="as time passed").click()
        assert any(text.endswith(" s") for text in o.axis()), o.axis()
        page.get_by_role("button", name="closer").click()
        assert "t" in o.fragment()
        page.get_by_role("button", name="rounds side by side").click()
        assert o.axis() == full_axis

    # A link contains the view of its sender; its theme takes precedence over the reader's.
    kept = list(subjects)[-1]
    off = "&".join(f"off={id.replace('/', '%2F').replace('@', '%40')}" for id in subjects if id != kept)
    with OpenPage(browser, "report.html", f"#{off}&r=1.5,2.5&theme=dark", color_scheme="light") as o:
        assert o.strips() == o.marks() == [kept]
        assert [float(v) for v in o.axis()[:1]] == [1.6] or 1.5 <= float(o.axis()[0]) <= 2.5, o.axis()
        assert brightness(o) < 60
    print("report.html: switches, pointing, zoom and links work")

    # The theme follows the system, and can be switched.
    with OpenPage(browser, "report.html", color_scheme="dark") as o:
        assert brightness(o) < 60, "the page is not dark although the system is"
        o.page.screenshot(path=screenshots / "dark-1280.png", full_page=True)
        o.page.click("#theme")
        assert brightness(o) > 200 and o.fragment()["theme"] == ["light"]

    # Phones, light and dark, one of them unusually narrow.
    for width, scheme in ((400, "light"), (400, "dark"), (320, "light")):
        with OpenPage(browser, "report.html", width=width, color_scheme=scheme, is_mobile=True, has_touch=True) as o:
            o.check_no_sideways_scrolling()
            check_accessibility(o.page)
            headings = o.page.locator(".numbers th[scope=col]:visible").all_text_contents()
            assert len(headings) == (4 if width <= 600 else 11), headings
            o.page.screenshot(path=screenshots / f"{scheme}-{width}.png", full_page=True)
            # A tap opens the box as well. The box stays open after the tap and does not exceed the screen.
            check_box(next(o.point_across(o.page.locator(".time canvas").first, 20, o.page.touchscreen.tap)))
            o.check_no_sideways_scrolling()

    # Print.
    with OpenPage(browser, "report.html", color_scheme="dark") as o:
        o.page.emulate_media(media="print")
        assert brightness(o) > 250, "the printed page is not white"
        pdf = o.page.pdf(path=screenshots / "print.pdf", format="A4", print_background=True)
        assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    print("report.html: light, dark, 400 px, 320 px and print work; nothing scrolls sideways")

    # A page of two reports, in which a switch affects only its report, and a report without samples.
    with OpenPage(browser, "two.html") as o:
        assert len(o.strips()) == 2 * len(subjects)
        o.page.locator(f".switches input[value='{kept}']").last.click()
        assert o.strips().count(kept) == 1
        o.reloads = 1
        o.page.reload()
        assert o.strips().count(kept) == 1
    with OpenPage(browser, "no-samples.html") as o:
        assert set(o.marks()) == set(subjects) and not o.strips()
    # A subject with several instances, whose rounds overlap.
    many = json.loads((work / "many" / "report.json").read_text())
    with OpenPage(browser, "many/report.html") as o:
        boxes = set(o.point_across(o.page.locator(".time canvas").first))
        assert boxes
        for text in boxes:
            check_box(text, many)
        assert len({text.split("instance ")[1][0] for text in boxes}) > 1, boxes
    print("report.html: several reports on a page, a report without samples and several instances work")

    # A large page: ten subjects with 100,000 ticks each.
    size = (work / "big.html").stat().st_size
    best = 99.0
    for _ in range(3):
        with OpenPage(browser, "big.html") as o:
            assert len(o.strips()) == 10
            best = min(best, o.load_s)
    assert size <= 3_000_000 and best < 2.0, (size, best)
    print(f"report.html: 10 subjects of 100,000 ticks have {size / 1e6:.1f} MB and open in {best:.2f} s")


def check_accessibility(page):
    """Checks the order of headings, the names of pictures and controls, and that text has enough contrast."""
    levels = page.eval_on_selector_all("h1, h2, h3", "all => all.map((e) => +e.tagName[1])")
    assert levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:])), levels
    unnamed = page.eval_on_selector_all(
        "svg:not([aria-hidden]), canvas, input, button, table",
        "all => all.filter((e) => !(e.ariaLabel || e.ariaHidden || e.labels?.length || e.caption || e.textContent.trim()))"
        ".map((e) => e.outerHTML.slice(0, 80))",
    )
    assert not unnamed, unnamed
    # A picture of role img hides its parts, which must not take the focus.
    assert page.locator("[role=img] [tabindex]").count() == 0
    for size in page.eval_on_selector_all(".switches label", "all => all.map((e) => e.getBoundingClientRect().height)"):
        assert size >= 24, f"a switch is only {size} px high"
    for selector in ("body", ".where", ".note", ".numbers td", ".numbers th.distrusted", ".command", "svg text"):
        for contrast in page.eval_on_selector_all(selector, CONTRAST):
            assert contrast >= 4.5, f"{selector}: the contrast of text is only {contrast}"


# The contrast of the text of elements to the first background behind it, as WCAG defines it.
CONTRAST = """all => all.slice(0, 20).map((e) => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (text) => rgb(text).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  let back = e;
  while ((rgb(getComputedStyle(back).backgroundColor)[3] ?? 1) === 0) back = back.parentElement;
  const style = getComputedStyle(e);
  const ink = light(e.namespaceURI.endsWith('svg') ? style.fill : style.color);
  const paper = light(getComputedStyle(back).backgroundColor);
  return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
})"""


def brightness(o):
    red, green, blue = map(int, re.findall(r"\d+", o.page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3])
    return (red + green + blue) / 3


def check_packed_tail():
    """Checks that the page of the big report contains every tick above p99 exactly."""
    big = json.loads((work / "big.json").read_text())
    page = json.loads((work / "big.html").read_text().split('class="data">')[1].split("</script>")[0])["subjects"]
    for subject, packed in zip(big["subjects"], page, strict=True):
        flat = [v for r in subject["rounds"] for v in r["lateness_ns"]]
        tail = {(i, v) for i, v in enumerate(flat) if v > subject["summary"]["lateness_ns"]["p99"]}
        index, exact = 0, set()
        for step, value in zip(packed["exact"][::2], packed["exact"][1::2], strict=True):
            index += step
            exact.add((index, value))
        assert tail and tail <= exact <= set(enumerate(flat)), subject["id"]
    print("report.html: contains every tick above p99, to the nanosecond")


screenshots.mkdir(parents=True, exist_ok=True)
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    use_pages(browser)
    browser.close()
check_packed_tail()
