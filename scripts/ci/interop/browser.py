"""Opens report.html in a real browser and uses it: WORK CHROMIUM SHOTS. Nothing here knows how the page is made, only
what its reader sees and does."""
import json, math, re, sys, time
from pathlib import Path
from urllib.parse import parse_qs

from playwright.sync_api import sync_playwright

work, chromium, shots = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
report = json.loads((work / "report.json").read_text())
subjects = {s["id"]: s for s in report["subjects"]}
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


class Opened:
    """A page, and everything that it should not do."""

    def __init__(self, browser, file, fragment="", width=1280, **emulate):
        # A page of its own each time: a view must come from the address alone.
        self.width = width
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **emulate)
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda m: self.said.append(m.text))
        self.page.on("pageerror", lambda e: self.said.append(str(e)))
        self.page.on("request", lambda r: self.asked.append(r.url))
        began = time.monotonic()
        self.page.goto(f"file://{work / file}{fragment}")
        self.page.wait_for_function("document.documentElement.dataset.ready === 'yes'")
        self.took = time.monotonic() - began

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            assert not self.said, self.said
            assert all(url.startswith(("file://", "data:")) for url in self.asked), self.asked
            assert sum(url.startswith("file://") for url in self.asked) <= 1 + self.reloads, self.asked
        self.context.close()

    reloads = 0

    def fragment(self):
        # The page's own word: what the driver believes the address to be follows a moment later.
        return parse_qs(self.page.evaluate("location.hash.slice(1)"))

    def strips(self):
        return self.page.eval_on_selector_all(".time", "all => all.map((e) => e.dataset.id)")

    def marks(self):
        return self.page.eval_on_selector_all(".tradeoff [data-id]", "all => all.map((e) => e.dataset.id)")

    def axis(self):
        """What the axis of time says, from left to right."""
        return self.page.locator(".time svg").last.locator("text[text-anchor=middle]").all_text_contents()

    def point_across(self, canvas, columns=30, point=None):
        """What the box says while the pointer, or a finger, goes over a strip: once a column of it, at whatever height the
        machine's ticks lie."""
        canvas.scroll_into_view_if_needed()
        at = canvas.bounding_box()
        for i in range(columns):
            for j in range(8):
                x, y = at["x"] + at["width"] * (i + 0.5) / columns, at["y"] + at["height"] * (j + 0.5) / 8
                (point or self.page.mouse.move)(x, y)
                if self.page.locator("#tip").is_visible():
                    yield self.page.locator("#tip").text_content()
                    break

    def no_sideways(self):
        # Against the screen itself: a phone lays a page that is too wide out on a wider one.
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= self.width, (wide, self.width)
        inner = self.page.evaluate(
            "[...document.querySelectorAll('body *')].filter((e) => e.scrollWidth > e.clientWidth + 1"
            " && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)).map((e) => e.outerHTML.slice(0, 80))"
        )
        assert not inner, inner


def says_what_was_measured(text, report=report):
    """A tick's box, against the report."""
    name, index, instance, tick, due, late, unit = re.fullmatch(
        r"(\S+), round (\d+)(?:, instance (\d+))?, tick (\d+)\ndue ([\d.]+) s after the start\nlate ([\d.-]+) (\w+)", text
    ).groups()
    subject = next(s for s in report["subjects"] if s["name"] == name.partition("*")[0])
    assert (instance is not None) == (subject["instances"] > 1), text
    r = next(r for r in subject["rounds"] if (r["index"], r["instance"]) == (int(index), int(instance or 0)))
    ticks = r.get("tick") or range(r["first_tick"], r["first_tick"] + len(r["lateness_ns"]))
    exact = r["lateness_ns"][list(ticks).index(int(tick))]
    # A tick that is not of the tail is packed in eight bits, within 1 part in 256 of itself, and shown in three digits.
    shown = abs(float(late))
    digit = 10 ** (math.floor(math.log10(shown)) - 2) if shown else 0
    assert abs(float(late) * UNITS[unit] - exact) <= abs(exact) / 256 + digit / 2 * UNITS[unit] + 1, (text, exact)
    deadline = (r["start_ns"] + int(tick) * subject["period_ns"]) / 1e9
    assert abs(float(due) - deadline) < 2e-6, (text, deadline)


def use(browser):
    with Opened(browser, "report.html", color_scheme="light") as o:
        page = o.page
        answers = page.locator(".answers li").all_text_contents()
        assert len(answers) == len(subjects) and all("late" in a and "of one core" in a for a in answers), answers
        assert set(o.strips()) == set(o.marks()) == set(subjects)
        assert page.evaluate("document.querySelector('.tradeoff').getBoundingClientRect().top < innerHeight"), "the answer is on the first screen"
        page.screenshot(path=shots / "light-1280.png", full_page=True)

        # A switch.
        gone = next(iter(subjects))
        box = page.locator(f".switches input[value='{gone}']")
        box.click()
        assert set(o.strips()) == set(o.marks()) == set(subjects) - {gone}
        assert o.fragment()["off"] == [gone]
        box.click()
        assert set(o.strips()) == set(subjects) and "off" not in o.fragment()

        # Pointing at ticks, across a strip: whatever the box says is in the report.
        canvas = page.locator(".time canvas").first
        said = set(o.point_across(canvas))
        assert len(said) > 10, said
        for text in said:
            says_what_was_measured(text)
        page.mouse.move(0, 0)
        assert not page.locator("#tip").is_visible()
        # And at a mark of the trade-off.
        page.locator(f".tradeoff [data-id='{gone}']").hover(force=True)
        assert "CPU per tick" in page.locator("#tip").text_content()

        # Zoom: by dragging, by buttons, and back.
        whole = o.axis()
        canvas.scroll_into_view_if_needed()
        at = canvas.bounding_box()
        page.mouse.move(at["x"] + at["width"] * 0.25, at["y"] + 30)
        page.mouse.down()
        page.mouse.move(at["x"] + at["width"] * 0.4, at["y"] + 40, steps=4)
        assert page.locator(".brush:visible").count() == 1
        page.mouse.move(at["x"] + at["width"] * 0.5, at["y"] + 40, steps=4)
        page.mouse.up()
        (dragged,) = o.fragment()["r"]
        low, high = map(float, dragged.split(","))
        rounds = len({r["index"] for r in report["subjects"][0]["rounds"]})
        assert abs(low - rounds * 0.25) < 0.1 and abs(high - rounds * 0.5) < 0.1, dragged
        assert o.axis() != whole
        page.screenshot(path=shots / "zoomed-1280.png", full_page=True)
        page.get_by_role("button", name="later").click()
        assert o.fragment()["r"] != [dragged]
        page.locator(".time canvas").first.dblclick()
        assert "r" not in o.fragment() and o.axis() == whole
        page.get_by_role("button", name="as time passed").click()
        assert any(text.endswith(" s") for text in o.axis()), o.axis()
        page.get_by_role("button", name="closer").click()
        assert "t" in o.fragment()
        page.get_by_role("button", name="rounds side by side").click()
        assert o.axis() == whole

    # A link shows what its sender saw; a theme in it wins over the reader's.
    kept = list(subjects)[-1]
    off = "&".join(f"off={id.replace('/', '%2F').replace('@', '%40')}" for id in subjects if id != kept)
    with Opened(browser, "report.html", f"#{off}&r=1.5,2.5&theme=dark", color_scheme="light") as o:
        assert o.strips() == o.marks() == [kept]
        assert [float(v) for v in o.axis()[:1]] == [1.6] or 1.5 <= float(o.axis()[0]) <= 2.5, o.axis()
        assert brightness(o) < 60
    print("report.html: switches, pointing, zoom and links work")

    # Themes.
    with Opened(browser, "report.html", color_scheme="dark") as o:
        assert brightness(o) < 60, "dark where the reader's system is"
        o.page.screenshot(path=shots / "dark-1280.png", full_page=True)
        o.page.click("#theme")
        assert brightness(o) > 200 and o.fragment()["theme"] == ["light"]

    # A phone, light and dark, and one narrower than any.
    for width, scheme in ((400, "light"), (400, "dark"), (320, "light")):
        with Opened(browser, "report.html", width=width, color_scheme=scheme, is_mobile=True, has_touch=True) as o:
            o.no_sideways()
            o.page.screenshot(path=shots / f"{scheme}-{width}.png", full_page=True)
            # A finger opens the box too, and it stays when the finger lifts; the box is within the screen.
            says_what_was_measured(next(o.point_across(o.page.locator(".time canvas").first, 20, o.page.touchscreen.tap)))
            o.no_sideways()

    # Paper.
    with Opened(browser, "report.html", color_scheme="dark") as o:
        o.page.emulate_media(media="print")
        assert brightness(o) > 250, "paper is white, whatever the screen was"
        pdf = o.page.pdf(path=shots / "print.pdf", format="A4", print_background=True)
        assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    print("report.html: light, dark, 400 px, 320 px and paper; nothing scrolls sideways")

    # Two reports on a page: a switch is of its own report. And one that kept no samples.
    with Opened(browser, "two.html") as o:
        assert len(o.strips()) == 2 * len(subjects)
        o.page.locator(f".switches input[value='{kept}']").last.click()
        assert o.strips().count(kept) == 1
        o.reloads = 1
        o.page.reload()
        assert o.strips().count(kept) == 1
    with Opened(browser, "no-samples.html") as o:
        assert set(o.marks()) == set(subjects) and not o.strips()
    # Several instances of one subject, whose rounds overlap.
    many = json.loads((work / "many" / "report.json").read_text())
    with Opened(browser, "many/report.html") as o:
        said = set(o.point_across(o.page.locator(".time canvas").first))
        assert said
        for text in said:
            says_what_was_measured(text, many)
        assert len({text.split("instance ")[1][0] for text in said}) > 1, said
    print("report.html: several reports on a page, a report without samples, several instances")

    # Weight: ten subjects with 100,000 ticks each.
    size = (work / "big.html").stat().st_size
    best = 99.0
    for _ in range(3):
        with Opened(browser, "big.html") as o:
            assert len(o.strips()) == 10
            best = min(best, o.took)
    assert size <= 3_000_000 and best < 2.0, (size, best)
    print(f"report.html: 10 subjects of 100,000 ticks weigh {size / 1e6:.1f} MB and open in {best:.2f} s")


def brightness(o):
    red, green, blue = map(int, re.findall(r"\d+", o.page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3])
    return (red + green + blue) / 3


def packed_tail():
    """Of the big report, what the page holds: every tick above p99 exactly."""
    big = json.loads((work / "big.json").read_text())
    held = json.loads((work / "big.html").read_text().split('class="data">')[1].split("</script>")[0])["subjects"]
    for subject, packed in zip(big["subjects"], held, strict=True):
        flat = [v for r in subject["rounds"] for v in r["lateness_ns"]]
        tail = {(i, v) for i, v in enumerate(flat) if v > subject["summary"]["lateness_ns"]["p99"]}
        at, exact = 0, set()
        for step, value in zip(packed["exact"][::2], packed["exact"][1::2], strict=True):
            at += step
            exact.add((at, value))
        assert tail and tail <= exact <= set(enumerate(flat)), subject["id"]
    print("report.html: every tick above p99 is in it, to the nanosecond")


shots.mkdir(parents=True, exist_ok=True)
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    use(browser)
    browser.close()
packed_tail()
