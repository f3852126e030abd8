#!/usr/bin/env python3
"""Records osjitter in a terminal and draws the recording as an animated picture, so that pages show its real output.

  python3 -m venv target/venv && target/venv/bin/pip install pyte
  target/venv/bin/python scripts/studies/terminal-session.py target/release/osjitter target/release/examples/service NAME [--scene run]

Writes SCENE.cast (in the format of asciinema) into results/NAME and SCENE.svg into the pictures of the book, for the scenes `run`
and `top` or only the named one, and puts them into the README, the book and the README of tickmeter. --draw only draws existing recordings again.
"""
import argparse, fcntl, html, json, os, pty, re, select, shutil, signal, struct, subprocess, sys, tempfile, termios, time
from pathlib import Path

import pyte

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[1] / "results"))
from pages import PICTURES, ROOT, index, put, this_machine, machine  # noqa: E402, in scripts/results

COLUMNS, ROWS = 80, 32
# Minimum duration of a frame in a picture, and the additional duration of the last frame.
FRAME_S, LAST_S = 0.4, 4.0
CELL, LINE, MARGIN = 8.4, 18, 12
LINK = re.compile("\x1b\\]8;.*?\x1b\\\\")


class Scene:
    """A command in a terminal, the keys that are pressed, and an activity in the background."""

    def __init__(self, typed, words, keys=(), background=None):
        self.typed, self.words, self.keys, self.background = typed, words, keys, background


def record(scene, file, environment):
    """Runs the command in a new terminal until it ends."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    events = [[0.0, "o", f"$ {scene.typed}\r\n"]]
    start = time.monotonic()
    child = subprocess.Popen(scene.words, stdin=follower, stdout=follower, stderr=follower, env=environment,
                             start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(follower)
    keys, background = list(scene.keys), scene.background
    while True:
        elapsed = time.monotonic() - start
        if keys and elapsed >= keys[0][0]:
            os.write(leader, keys.pop(0)[1].encode())
        if background:
            background(elapsed)
        if select.select([leader], [], [], 0.05)[0]:
            try:
                written = os.read(leader, 1 << 16)
            except OSError:  # Linux reports a closed terminal in this way.
                break
            if not written:
                break
            events.append([round(time.monotonic() - start, 3), "o", written.decode(errors="replace")])
    assert child.wait() == 0, f"{scene.typed} exited with {child.returncode}"
    # Targets of links are paths on this machine.
    events = [[at, kind, LINK.sub("", written)] for at, kind, written in events]
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "timestamp": int(time.time()), "command": scene.typed,
            "env": {"TERM": environment["TERM"]}}
    file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [head, *events]))


def read_frames(file):
    """Returns the states of the screen as (time, rows) pairs; a row is a tuple of pieces of text with one style."""
    head, *events = map(json.loads, file.read_text().splitlines())
    screen = pyte.Screen(head["width"], head["height"])
    stream = pyte.Stream(screen)
    frames = []
    for i, (at, _, written) in enumerate(events):
        stream.feed(written)
        if i + 1 < len(events) and events[i + 1][0] - at < 0.02:
            continue  # The terminal is being redrawn.
        rows = tuple(row_pieces(screen.buffer[y], head["width"]) for y in range(head["height"]))
        if frames and at - frames[-1][0] < FRAME_S and i + 1 < len(events):
            continue
        if not frames or frames[-1][1] != rows:
            frames.append((at, rows))
    return head, frames


def row_pieces(cells, width):
    """Splits a row into pieces of text with one style."""
    pieces, last = [], None
    for x in range(width):
        cell = cells[x]
        style = (cell.fg, cell.bg, cell.bold, cell.reverse)
        if style != last:
            pieces.append([x, style, ""])
            last = style
        pieces[-1][2] += cell.data or " "
    plain = ("default", "default", False, False)
    return tuple((x, style, text.rstrip() if style == plain else text) for x, style, text in pieces
                 if text.strip() or style != plain)


def draw_piece(x, style, text):
    """Draws a piece of a row at a position and width that do not depend on the font."""
    fg, bg, bold, reverse = style
    left, width = MARGIN + x * CELL, len(text) * CELL
    classes = [f"c-{fg}"] if fg != "default" else []
    classes += ["b"] if bold else []
    drawn = ""
    if reverse or bg != "default":
        drawn += f'<rect x="{left:.1f}" y="3" width="{width:.1f}" height="{LINE}" class="{"r" if reverse else f"g-{bg}"}"/>'
        classes += ["i"] if reverse else []
    if text.strip():
        attribute = f' class="{" ".join(classes)}"' if classes else ""
        drawn += (f'<text x="{left:.1f}" y="{LINE - 1}" textLength="{width:.1f}"{attribute} xml:space="preserve">'
                  f"{html.escape(text, quote=False)}</text>")
    return drawn


def draw(file):
    head, frames = read_frames(file)
    end = frames[-1][0] + LAST_S
    height = max((y + 1 for _, rows in frames for y, row in enumerate(rows) if row), default=1)
    lines, bodies, animations = {}, [], []
    for n, (at, rows) in enumerate(frames):
        until = frames[n + 1][0] if n + 1 < len(frames) else end
        used = "".join(f'<use href="#l{lines.setdefault(row, len(lines))}" y="{MARGIN + y * LINE}"/>'
                       for y, row in enumerate(rows[:height]) if row)
        bodies.append(f'<g class="f" style="animation-name:f{n}">{used}</g>')
        a, b = 100 * at / end, 100 * until / end
        animations.append(f"@keyframes f{n}{{0%{{visibility:{'visible' if n == 0 else 'hidden'}}}{a:.3f}%{{visibility:visible}}"
                          f"{b:.3f}%{{visibility:{'visible' if n + 1 == len(frames) else 'hidden'}}}"
                          f"100%{{visibility:{'visible' if n + 1 == len(frames) else 'hidden'}}}}}")
    symbols = "".join(f'<g id="l{n}">{"".join(draw_piece(*p) for p in row)}</g>' for row, n in lines.items())
    width, tall = 2 * MARGIN + head["width"] * CELL, 2 * MARGIN + height * LINE
    light = {"black": "#1f2328", "red": "#b3261e", "green": "#116329", "brown": "#7d4e00", "blue": "#0550ae",
             "magenta": "#8250df", "cyan": "#0b6b75", "white": "#57606a"}
    dark = {"black": "#8b949e", "red": "#ff7b72", "green": "#56d364", "brown": "#e3b341", "blue": "#79c0ff",
            "magenta": "#d2a8ff", "cyan": "#56d4dd", "white": "#c9d1d9"}
    rules = lambda colours: "".join(f".c-{n},.c-bright{n}{{fill:{c}}}.g-{n},.g-bright{n}{{fill:{c}}}" for n, c in colours.items())
    style = (
        f"text{{font:14px ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',monospace;fill:#1f2328}}"
        f".p{{fill:#ffffff;stroke:#d0d7de}}.r{{fill:#1f2328}}.i{{fill:#ffffff}}.b{{font-weight:bold}}{rules(light)}"
        f"@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.p{{fill:#0d1117;stroke:#30363d}}.r{{fill:#e6edf3}}"
        f".i{{fill:#0d1117}}{rules(dark)}}}"
        f".f{{visibility:hidden;animation:{end:.2f}s step-end infinite}}{''.join(animations)}"
        f"@media(prefers-reduced-motion:reduce){{.f{{animation:none}}.f:last-of-type{{visibility:visible}}}}"
    )
    title = html.escape(f"A terminal: {head['command']}")
    picture = PICTURES / "session" / f"{file.stem}.svg"
    picture.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {tall}" width="{width:.0f}" height="{tall}" role="img">'
        f"<title>{title}</title><style>{style}</style><defs>{symbols}</defs>"
        f'<rect class="p" x="0.5" y="0.5" width="{width - 1:.0f}" height="{tall - 1}" rx="6"/>{"".join(bodies)}</svg>\n')
    print(f"{picture}: {len(frames)} frames, {len(lines)} lines, {end:.0f} s, {picture.stat().st_size} bytes")


class Disturbance:
    """A process that spins on the CPU of a service for a while."""

    def __init__(self, cpu, begin, end):
        self.cpu, self.begin, self.end, self.child = cpu, begin, end, None

    def __call__(self, elapsed):
        if self.child is None and self.begin <= elapsed < self.end:
            self.child = subprocess.Popen(["taskset", "-c", str(self.cpu), sys.executable, "-c", "while True: pass"])
        if self.child and elapsed >= self.end:
            self.close()

    def close(self):
        if self.child:
            self.child.kill()
            self.child.wait()
            self.child, self.begin = None, float("inf")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("osjitter")
    parser.add_argument("service", help="the example of tickmeter")
    parser.add_argument("name", help="directory below results/")
    parser.add_argument("--scene", action="append", choices=["run", "top"], help="record only this scene [default: both]")
    parser.add_argument("--draw", action="store_true", help="only draw existing recordings")
    args = parser.parse_args()
    directory = ROOT / "results" / args.name
    directory.mkdir(parents=True, exist_ok=True)
    osjitter, program = (str(Path(path).resolve()) for path in (args.osjitter, args.service))
    scenes = args.scene or ["run", "top"]
    with tempfile.TemporaryDirectory(prefix="terminal-session-") as home:
        home = Path(home)
        environment = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")}
        environment |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "TICKMETER_DIR": str(home / "meters")}
        (home / "meters").mkdir(mode=0o700)
        os.chdir(home)
        if "run" in scenes and not args.draw:
            typed = "osjitter run --period 500us --ticks 4000"
            record(Scene(typed, [osjitter, *typed.split()[1:]]), directory / "run.cast", environment)
        if "top" in scenes and not args.draw:
            # Two copies of one program run on one CPU each. From the eighth second on, another process occupies the second CPU.
            cpus = sorted(os.sched_getaffinity(0))
            services = [subprocess.Popen(["taskset", "-c", str(cpu), shutil.copy(program, home / name)], env=environment,
                                         stdout=subprocess.DEVNULL) for name, cpu in zip(("pump", "valve"), (cpus[0], cpus[-1]))]
            disturbance = Disturbance(cpus[-1], 8.0, 14.0)
            try:
                time.sleep(1)
                record(Scene("osjitter top", [osjitter, "top"], [(20.0, "q")], disturbance), directory / "top.cast", environment)
            finally:
                disturbance.close()
                for service in services:
                    service.send_signal(signal.SIGKILL)
                    service.wait()
    for scene in scenes:
        draw(directory / f"{scene}.cast")
    host = this_machine()
    link = f"results/{args.name}"
    picture = f"![osjitter top shows two loops, of which the one with a busy neighbour on its CPU is late for six seconds.](pictures/session/top.svg)"
    if "run" in scenes:
        put("run session", f"![A run in a terminal ends with the answer and the verdict on the machine, above the table.](pictures/session/run.svg)")
    if "top" in scenes:
        block = f"{picture}\n\nFor six seconds, another process was busy on the CPU of one loop: [a recording]({link}/top.cast), {machine(host)}."
        put("watched service", block)
        put("live meters", block)
    first, *others = [f"{scene}.cast" for scene in scenes]
    index(args.name, [(f"`{args.name}`", first), *((name, name) for name in others)], host, "`scripts/studies/terminal-session.py`")


main()
