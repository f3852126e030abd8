#!/usr/bin/env python3
"""Measures how an interval follows another clock in real time, and draws the lock-in.

  scripts/studies/foreign-clock.py NAME            measure for 30 s, and for 20 s with a gap and a jump
  scripts/studies/foreign-clock.py NAME --publish  only draw results/NAME/foreign-clock.json and write its figures

On a busy machine the thread that is the other clock would read the time late, so that its events would be no reference. For that
reason the program runs in the class SCHED_FIFO, which needs root.

Writes results/NAME/foreign-clock.json, a picture for the book, and a block of the page on following another clock.
"""
import argparse, json, pathlib, subprocess, sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
from pages import PICTURES, ROOT, index, machine, picture, put, this_machine  # noqa: E402, in scripts/results
from programs import build_study  # noqa: E402

WIDTH, LEFT, RIGHT, HEIGHT = 860, 84, 24, 210
INK, GRID, TICKS, EVENTS, FREE = "#333", "#ddd", "#0b6e99", "#bbb", "#c2571a"
LOCK_IN = 500


def text(x, y, content, anchor="start", size=13, color=INK):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}">{content}</text>'


class Panel:
    """A diagram of offsets in us over ticks, with its upper left corner at (LEFT, top)."""

    def __init__(self, top, title, last_tick, limit_us):
        self.top, self.last_tick, self.limit_us = top, last_tick, limit_us
        self.parts = [text(LEFT, top - 12, title, size=15)]

    def x(self, tick):
        return LEFT + (WIDTH - LEFT - RIGHT) * tick / self.last_tick

    def y(self, us):
        return self.top + HEIGHT / 2 * (1 - us / self.limit_us)

    def draw_axes(self, x_ticks, format_x, y_ticks):
        for us in y_ticks:
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(us):.1f}" y2="{self.y(us):.1f}" stroke="{GRID}"/>')
            self.parts.append(text(LEFT - 8, self.y(us) + 4, f"{us:+d} us" if us else "0", "end"))
        for tick in x_ticks:
            self.parts.append(text(self.x(tick), self.top + HEIGHT + 20, format_x(tick), "middle"))

    def draw_dots(self, points, color):
        inside = [(tick, us) for tick, us in points if abs(us) <= self.limit_us]
        path = "".join(f"M{self.x(tick):.1f} {self.y(us):.1f}h0" for tick, us in inside)
        self.parts.append(f'<path d="{path}" stroke="{color}" stroke-width="3.2" stroke-linecap="round"/>')

    def draw_line(self, points, color):
        """Draws a line through the points. It ends at a point out of the panel, and begins again after it."""
        path, is_drawn = [], False
        for tick, us in points:
            is_inside = abs(us) <= self.limit_us
            if is_inside:
                path.append(f"{'L' if is_drawn else 'M'}{self.x(tick):.1f} {self.y(us):.1f}")
            is_drawn = is_inside
        self.parts.append(f'<path d="{"".join(path)}" fill="none" stroke="{color}" stroke-width="1.6"/>')

    def shade(self, first, last, label):
        self.parts.append(f'<rect x="{self.x(first):.1f}" y="{self.top}" width="{self.x(last) - self.x(first):.1f}" '
                          f'height="{HEIGHT}" fill="{GRID}" fill-opacity="0.6"/>')
        self.parts.append(text(self.x((first + last) / 2), self.top + 16, label, "middle"))


def fold(ns):
    """Returns the distance to the closest cycle of 1 ms."""
    return (ns + 500_000) % 1_000_000 - 500_000


def draw(disturbed, host):
    series = disturbed["series"]
    begin = [row for row in series if row[0] < LOCK_IN]
    lock = Panel(90, "The first 500 ticks", LOCK_IN, 120)
    lock.draw_axes(range(0, LOCK_IN + 1, 100), str, range(-100, 101, 50))
    lock.draw_dots([(row[0], row[3] / 1e3) for row in begin if row[3] is not None], EVENTS)
    lock.draw_line([(row[0], row[1] / 1e3) for row in begin], TICKS)
    locked_at = disturbed["locked_at"]
    lock.parts.append(f'<line x1="{lock.x(locked_at):.1f}" x2="{lock.x(locked_at):.1f}" y1="{lock.top}" y2="{lock.top + HEIGHT}" '
                      f'stroke="{INK}" stroke-dasharray="3 3"/>')
    lock.parts.append(text(lock.x(locked_at) + 6, lock.top + 14, f"locked at tick {locked_at}"))
    run = Panel(380, f"The whole run of {disturbed['ticks'] // 1000} s", disturbed["ticks"], 500)
    run.draw_axes(range(0, disturbed["ticks"] + 1, 2_000), lambda tick: f"{tick // 1000} s", range(-500, 501, 250))
    run.shade(*disturbed["gap"], "no events")
    run.draw_dots([(row[0], fold(row[2]) / 1e3) for row in series if row[0] % 100 == 0], FREE)
    run.draw_line([(row[0], row[1] / 1e3) for row in series], TICKS)
    run.parts.append(text(run.x(disturbed["jump_at"]) + 6, run.top + 16, "jump by 0.3 cycles"))
    legend = []
    for x, color, label in ((LEFT, TICKS, "tick"), (LEFT + 70, EVENTS, "observed event"), (LEFT + 210, FREE, "tick without steering")):
        key = f'<circle cx="{x}" cy="48" r="4" fill="{color}"/>'
        if label == "tick":
            key = f'<path d="M{x - 6} 48h12" stroke="{color}" stroke-width="2.4"/>'
        legend += [key, text(x + 10, 52, label)]
    answer = f"Locked at tick {locked_at}, then within {format_us(disturbed['p99_ns'])} of the events of a slow clock at p99."
    title = text(LEFT, 26, answer, size=17)
    footer = text(LEFT, 645, f"{machine(host)}; scripts/studies/foreign-clock.py", size=12)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 660" font-family="sans-serif" role="img" '
            f'>\n<title>{answer}</title>\n<rect width="{WIDTH}" height="660" fill="#fff"/>\n'
            + "\n".join([title, *legend, *lock.parts, *run.parts, footer]) + "\n</svg>\n")


def measure(program, *arguments):
    return json.loads(subprocess.run(["chrt", "--fifo", "10", program, *arguments], check=True, stdout=subprocess.PIPE).stdout)


def format_us(ns):
    return f"{ns / 1e3:.3g} us"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--publish", action="store_true", help="measure nothing")
    args = parser.parse_args()
    file = ROOT / "results" / args.name / "foreign-clock.json"
    if not args.publish:
        program = build_study("foreign-clock")
        runs = {"undisturbed": measure(program, "30"), "disturbed": measure(program, "20", "disturbed")}
        file.parent.mkdir(exist_ok=True)
        # A line per tick.
        written = json.dumps({"host": this_machine(), **runs}).replace(', "', ',\n"').replace("], [", "],\n[")
        file.write_text(written + "\n")
    measured = json.loads(file.read_text())
    host = measured["host"]
    (PICTURES / "steering/lock-in.svg").write_text(draw(measured["disturbed"], host))
    rows = []
    for label, name in (("30 s", "undisturbed"), ("20 s, with 2 s without events and a jump by 0.3 cycles", "disturbed")):
        run = measured[name]
        rows.append(f"| {label} | {format_us(run['p50_ns'])} | {format_us(run['p99_ns'])} | {format_us(run['max_ns'])} | "
                    f"{run['slipped_ticks']} | {run['rate_ppb'] / 1e3:+.1f} ppm | {format_us(run['late_p50_ns'])} |")
    table = "\n".join(["| Run | p50 | p99 | max | cycles lost or doubled | rate | tick late at p50 |",
                       "|---|---:|---:|---:|---:|---:|---:|", *rows])
    put("foreign clock", f"""{picture("steering/lock-in.svg")}

{table}

The first three figures are the distance of deadlines from the true events, without the 500 ticks after the start and after the jump.
The last one is the time from a deadline to the tick, as of any interval. The program ran in the class SCHED_FIFO. Source:
[`foreign-clock.json`](results/{args.name}/foreign-clock.json), {machine(host)}.""")
    index(args.name, [(f"`{args.name}`", "foreign-clock.json")], host, "`scripts/studies/foreign-clock.py` as root, other programs running")


main()
