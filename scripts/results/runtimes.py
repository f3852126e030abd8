"""The league of runtimes: the same loop in the timers of several runtimes, measured in the same rounds.

The programs are in scripts/studies/peers/runtimes, one for each timer.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from pages import ROOT, index, put
from programs import STUDIES, build_peer
from tables import format_time, join_rows, machine_and_day

PERIODS = ("500us", "1ms")
# osjitter subtracts the CPU time of a start, which it measures once, from that of each round. The start of glommio takes about 6 ms
# and varies by 0.3 ms. A round is so long that this is less than 0.2 us per tick.
ROUND_TICKS, ROUNDS = 2_000, 20
SHORT_ROUND_TICKS, SHORT_ROUNDS = 250, 2
CONTROLS = {"nanosleep": ("control: a thread that sleeps, with a timer slack of 1 ns", "`clock_nanosleep`"),
            "spin": ("control: a thread that does not sleep", "reads the clock in a loop")}
# A program whose timer has slots of a millisecond.
MILLISECOND_WHEEL = "wheel with slots of a millisecond"


@dataclass(frozen=True)
class Program:
    """A program that waits in one timer."""

    # Name in the report.
    name: str
    # Feature of the package peers-runtimes, which is also the package in the lock file; None for the standard library.
    package: str | None
    timer: str
    # How the timer waits, according to its source.
    waits: str
    executable: str
    argument: str | None = None
    # The way in which the timer is used, if it has several.
    setting: str | None = None
    is_ours: bool = False

    def describe(self, version=None):
        """Returns the name of the timer for a table."""
        name = f"`{self.timer}` {version}" if version else f"`{self.timer}`"
        text = f"{name}, {self.setting}" if self.setting else name
        return f"**{text}**" if self.is_ours else text


PROGRAMS = [
    Program("osinterval", "osinterval", "osinterval::OsInterval", "timerfd, `epoll_wait`", "wait-osinterval", is_ours=True),
    Program("osinterval-precise", "osinterval", "OsInterval", "timerfd, wakes early and spins", "wait-osinterval",
            argument="precise", setting="precise", is_ours=True),
    Program("osinterval-blocking", "osinterval-blocking", "osinterval::blocking::Interval", "`clock_nanosleep`, timer slack of 1 ns",
            "wait-osinterval-blocking", is_ours=True),
    Program("osinterval-blocking-precise", "osinterval-blocking", "blocking::Interval", "`clock_nanosleep`, wakes early and spins",
            "wait-osinterval-blocking", argument="precise", setting="precise", is_ours=True),
    Program("busypoll", "busypoll", "busypoll::time::Interval", "never parks: a whole core", "wait-busypoll", is_ours=True),
    Program("tokio", "tokio", "tokio::time::Interval", f"{MILLISECOND_WHEEL}, `epoll_wait`", "wait-tokio"),
    Program("tokio-hrtime", "tokio-hrtime", "tokio_hrtime::Interval", "periodic timerfd, `epoll_wait`", "wait-tokio-hrtime"),
    Program("async-timer", "async-timer", "async_timer::Timer", "timerfd, `epoll_wait`", "wait-async-timer", setting="on tokio"),
    Program("async-io", "async-io", "async_io::Timer", "timerfd, `epoll_pwait`, a helper thread", "wait-async-io"),
    Program("smol", "smol", "smol::Timer", "timerfd, `epoll_pwait`, a helper thread, as async-io", "wait-smol"),
    Program("compio", "compio", "compio::time::sleep_until", "timeout of `io_uring_enter`", "wait-compio"),
    Program("glommio", "glommio", "glommio::timer::Timer", "timeouts in io_uring, `io_uring_enter`", "wait-glommio"),
    Program("monoio", "monoio", "monoio::time::Interval", f"{MILLISECOND_WHEEL}, `io_uring_enter`", "wait-monoio"),
    Program("futures-timer", "futures-timer", "futures_timer::Delay", "helper thread that parks", "wait-futures-timer"),
    Program("embassy-time", "embassy-time", "embassy_time::Timer", "helper thread with a condition variable", "wait-embassy-time",
            setting="driver for std"),
    Program("std", None, "std::thread::sleep", "`clock_nanosleep`, timer slack of 50 us", "wait-std"),
    Program("spin_sleep", "spin_sleep", "spin_sleep::SpinSleeper", "`clock_nanosleep`, then `sched_yield` in a loop",
            "wait-spin-sleep"),
    Program("spin_sleep_util", "spin_sleep_util", "spin_sleep_util::Interval", "as spin_sleep", "wait-spin-sleep-util"),
]


def build(program):
    """Builds a program alone, so that the features of one runtime do not change another one."""
    features = ["--no-default-features", *(["--features", program.package] if program.package else [])]
    return build_peer(program.executable, package="peers-runtimes", options=features)


def command(program, path):
    # A relative path, because the report contains the command.
    return " ".join([str(path.relative_to(ROOT)), *([program.argument] if program.argument else [])])


def run_ticks(program, path, ticks, period_ns, *wrapper):
    """Runs a program alone for some ticks."""
    with tempfile.TemporaryDirectory() as home:
        request = {"OSJITTER_PERIOD_NS": str(period_ns), "OSJITTER_WARMUP": "0", "OSJITTER_TICKS": str(ticks),
                   "OSJITTER_OUT": f"{home}/series"}
        words = [*wrapper, path, *([program.argument] if program.argument else [])]
        return subprocess.run(words, env=os.environ | request, capture_output=True, text=True)


def prepare():
    """Builds the programs. Returns the paths of those that run here, and the reasons of the others by name."""
    paths, left_out = {}, {}
    for program in PROGRAMS:
        try:
            path = build(program)
        except subprocess.CalledProcessError:
            left_out[program.name] = "does not build"
            continue
        rehearsal = run_ticks(program, path, ticks=1, period_ns=1_000_000)
        if rehearsal.returncode == 0:
            paths[program.name] = path
        else:
            lines = rehearsal.stderr.strip().splitlines() or [f"exit code {rehearsal.returncode}"]
            left_out[program.name] = lines[-1].removeprefix("error: ")
    for name, reason in left_out.items():
        print(f"warning: without {name}: {reason}", file=sys.stderr)
    return paths, left_out


def count_system_calls(program, path):
    """Returns the system calls per tick that occur at least once in 20 ticks."""
    counts = []
    with tempfile.TemporaryDirectory() as home:
        log = pathlib.Path(home) / "calls"
        for ticks in (100, 300):
            traced = run_ticks(program, path, ticks, 5_000_000, "strace", "-f", "-c", "-o", str(log))
            assert traced.returncode == 0, traced.stderr
            rows = [line.split() for line in log.read_text().splitlines()]
            counts.append({row[-1]: int(row[3]) for row in rows if len(row) > 4 and row[3].isdigit() and row[-1] != "total"})
    # The difference between two lengths excludes the calls at start and end.
    few, many = counts
    per_tick = {call: (count - few.get(call, 0)) / 200 for call, count in many.items()}
    return {call: count for call, count in per_tick.items() if count >= 0.05}


def measure(run):
    paths, left_out = prepare()
    round_ticks, rounds = (SHORT_ROUND_TICKS, SHORT_ROUNDS) if run.short else (ROUND_TICKS, ROUNDS)
    words = ["--no-samples", "--quiet", "--round-ticks", round_ticks, "--ticks", round_ticks * rounds]
    words += [word for period in PERIODS for word in ("--period", period)]
    words += [word for control in CONTROLS for word in ("--subject", control)]
    measured = [program for program in PROGRAMS if program.name in paths]
    for program in measured:
        words += ["--command", command(program, paths[program.name]), "--name", program.name]
    run.osjitter("run", *words, "--force", "--out", run.directory, cwd=ROOT)
    run.compress_report()
    calls = {program.name: count_system_calls(program, paths[program.name]) for program in measured}
    run.save("runtimes.json", {"versions": versions(), "system_calls_per_tick": calls, "left_out": left_out})


def versions():
    """Returns the versions of the runtimes in the lock file; those of this repository have none to compare."""
    packages = dict(re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"\nsource', (STUDIES / "Cargo.lock").read_text()))
    return {program.name: packages[program.package] for program in PROGRAMS if program.package in packages}


def read_rows(report, details, period_ns):
    """Returns the rows of a period, the lowest median first: timer, how it waits, name and summary."""
    summaries = {subject["name"]: subject["summary"] for subject in report["subjects"]
                 if subject["period_ns"] == period_ns and subject["summary"]}
    labels = {name: (f"*{text}*", waits) for name, (text, waits) in CONTROLS.items()}
    for program in PROGRAMS:
        labels[program.name] = (program.describe(details["versions"].get(program.name)), program.waits)
    rows = [(*labels[name], name, summary) for name, summary in summaries.items()]
    return sorted(rows, key=lambda row: row[3]["lateness_ns"]["p50"])


def format_cell(ns):
    return "-" if ns is None else format_time(ns, 999_500)


def format_cpu(ns):
    return "-" if ns is None else f"{ns / 1e3:.1f} us"


def make_table(rows):
    """Returns the table of a period."""
    lines = ["| Timer | p50 | p99 | missed | CPU per tick | how it waits |", "|---|---:|---:|---:|---:|---|"]
    for timer, waits, _, summary in rows:
        p50, p99 = (format_cell(summary["lateness_ns"][key]) for key in ("p50", "p99"))
        missed = f"{100 * summary['missed'] / summary['ticks']:.3g} %"
        lines.append(f"| {timer} | {p50} | {p99} | {missed} | {format_cpu(summary['cpu_ns_per_tick'])} | {waits} |")
    return join_rows(*lines)


def make_call_table(details):
    lines = ["| Timer | System calls per tick |", "|---|---|"]
    for program in PROGRAMS:
        if (calls := details["system_calls_per_tick"].get(program.name)) is not None:
            by_count = sorted(calls.items(), key=lambda call: -call[1])
            lines.append(f"| {program.describe()} | {', '.join(f'`{call}` {count:.2f}' for call, count in by_count) or 'none'} |")
    return join_rows(*lines)


def describe_wheels(rows):
    """Describes how late the timers on wheels of a millisecond are, compared with all others."""
    timers = {program.name: program for program in PROGRAMS}
    late = {name: summary["lateness_ns"]["p50"] for _, _, name, summary in rows if name in timers}
    wheels = [name for name in late if timers[name].waits.startswith(MILLISECOND_WHEEL)]
    others = [late[name] for name in late if name not in wheels]
    names = " and ".join(f"{name} ({format_cell(late[name])} at the median)" for name in wheels)
    return (f"The timers of {names} are in a wheel with slots of a millisecond. The others have no such slots; the slowest of them has a median lateness of "
            f"{format_cell(max(others))}.")


ABOUT_COLUMNS = ("A tick is missed if it had not arrived when the next one was due; one wake-up then serves several ticks, which costs "
                 "less CPU time. CPU is the CPU time of the whole process per tick, without that of its start.")


def write_page(run, report, details, tables):
    """Writes the page of the run: the tables of all periods and the system calls."""
    verdict = report["fitness"]["verdict"]
    parts = [f"# Timers of runtimes\n\nEach program waits for the deadlines of an absolute grid in the timer of one runtime. All ran in "
             f"the same rounds. {ABOUT_COLUMNS} {machine_and_day(report)}; the verdict on the machine: {verdict}. "
             "Made by `scripts/results/publish.py runtimes`."]
    parts += [f"## Every {format_cell(period_ns)}\n\n{table}" for period_ns, table in tables.items()]
    parts.append(f"## System calls\n\nAt a period of 5 ms, counted by strace.\n\n{make_call_table(details)}")
    parts += [f"Not measured: {name}: {reason}." for name, reason in details["left_out"].items()]
    run.path("runtimes.md").write_text("\n\n".join(parts) + "\n")


def put_tables(run, report, details, tables):
    """Puts the difference between wheels and other timers into the README, and all tables into the book."""
    period_ns = next(iter(tables))
    origin = f"Source: [`report.json.gz`](results/{run.name}/report.json.gz). {machine_and_day(report)}."
    page = f"[`runtimes.md`](results/{run.name}/runtimes.md)"
    wheels = describe_wheels(read_rows(report, details, period_ns))
    put("league of runtimes", f"""{wheels} Each waited for the same deadlines every {format_cell(period_ns)}, in the same rounds; [the
book](docs/src/choosing.md#timers-of-other-runtimes) has the table of all {len(PROGRAMS)} timers. {origin}""")
    all_periods = "\n\n".join(f"At a period of {format_cell(period)}:\n\n{table}" for period, table in tables.items())
    put("timers of runtimes", f"""{all_periods}

{wheels} {ABOUT_COLUMNS} {origin} {page} has the system calls of each timer.""")


def write(run):
    report, details = run.load("report.json.gz"), run.load("runtimes.json")
    periods = sorted({subject["period_ns"] for subject in report["subjects"]})
    tables = {period_ns: make_table(read_rows(report, details, period_ns)) for period_ns in periods}
    write_page(run, report, details, tables)
    if run.short:
        return
    if (verdict := report["fitness"]["verdict"]) != "quiet":
        sys.exit(f"error: the machine was {verdict}: README, book and index are unchanged")
    put_tables(run, report, details, tables)
    index(run.name, [(f"`{run.name}`", "runtimes.md"), ("report", "report.json.gz")], report["host"],
          "`scripts/results/publish.py runtimes`")
