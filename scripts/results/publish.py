#!/usr/bin/env python3
"""Measures on this machine and copies the figures into the pages, so that no figure is typed by hand.

  scripts/results/publish.py RECIPE NAME             measure into results/NAME, then continue like --tables
  scripts/results/publish.py RECIPE NAME --tables    make tables, pictures and pages from the files in results/NAME
  scripts/results/publish.py RECIPE NAME --short     measure only a few rounds, to test the recipe; change no page
"""

import argparse
import datetime
import gzip
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

sys.dont_write_bytecode = True
import runtimes  # noqa: E402, in this directory
import tables  # noqa: E402
import threads  # noqa: E402
from handicaps import hogs, quota, set_timer_slack  # noqa: E402
from pages import PICTURES, ROOT, read_cpuinfo, this_machine  # noqa: E402
from programs import STUDIES, build_osjitter, build_peer, build_study  # noqa: E402


@dataclass(frozen=True)
class Recipe:
    """A measurement and the tables that are made from its files."""

    about: str
    measure: Callable
    write: Callable
    # Cargo features with which the program is built.
    features: str = ""
    # Whether `--short` is possible.
    has_short: bool = False


class Run:
    """A run of a recipe: the directory of its files and the programs that it starts."""

    def __init__(self, recipe, name, osjitter, short):
        self.recipe, self.name, self.short = RECIPES[recipe], name, short
        self.directory = ROOT / "results" / name
        # The pictures of a recipe replace those of its previous run.
        self.pictures = PICTURES / recipe
        self.program = osjitter

    def path(self, file):
        return self.directory / file

    def load(self, file):
        content = self.path(file).read_bytes()
        return json.loads(gzip.decompress(content) if file.endswith(".gz") else content)

    def save(self, file, value):
        """Replaces a JSON file in one step."""
        part = self.path(file + ".part")
        part.write_text(json.dumps(value, indent=1))
        part.rename(self.path(file))

    def command(self, *words):
        """Returns a command line of osjitter, which is built first unless `--osjitter` names one."""
        if self.program is None:
            features = ["--features", self.recipe.features] if self.recipe.features else []
            self.program = build_osjitter(*features)
        return [str(word) for word in (self.program, *words)]

    def osjitter(self, *words, **options):
        subprocess.run(self.command(*words), check=True, stdout=subprocess.DEVNULL, **options)

    def report_file(self, file, *words):
        """Returns the text that `osjitter report` writes into a file."""
        with tempfile.TemporaryDirectory() as home:
            out = pathlib.Path(home) / "text"
            self.osjitter("report", self.path(file), *words, "--out", out)
            return out.read_text()

    def compress_report(self, with_rounds=True):
        """Compresses the report, which may have some MB, and removes its page and pictures."""
        report = self.path("report.json")
        content = json.loads(report.read_text())
        for subject in content["subjects"]:
            subject["rounds"] = subject["rounds"] if with_rounds else []
        text = json.dumps(content, separators=(",", ":")) + "\n"
        self.path("report.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        for file in (report, *self.directory.glob("*.svg"), *self.directory.glob("*.html")):
            file.unlink()

    def draw(self, file, *names):
        """Draws the pictures of a file, and keeps those with these names for the pages."""
        self.pictures.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as home:
            # Files of these kinds have a single picture.
            is_single = file in ("clock.json", "find.json")
            out = pathlib.Path(home) / names[0] if is_single else home
            self.osjitter("report", self.path(file), "--format", "svg", "--out", out)
            for name in names:
                (self.pictures / name).write_bytes((pathlib.Path(home) / name).read_bytes())
        # The command that measured may have drawn pictures as well.
        for picture in self.directory.glob("*.svg"):
            picture.unlink()

    def report_output(self, file, *words):
        """Returns the text that `osjitter report` prints at a width of 80 columns."""
        command = self.command("report", self.path(file), *words)
        environment = {**os.environ, "COLUMNS": "80"}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def osjitter_measurement(words):
    """Returns a measurement with one command of osjitter, which writes into the directory of the run."""
    return lambda run: run.osjitter(*shlex.split(words), "--force", "--out", run.directory)


def output_json(*command):
    """Runs a program that prints JSON."""
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def commit():
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def cpu_and_kernel():
    return f"{read_cpuinfo().get('model name', 'unknown CPU')}, kernel {os.uname().release}"


REFERENCE = """run --period 500us --ticks 10000
  --subject os-interval --subject os-interval-precise --subject os-interval-group --subject periodic-interval
  --subject os-sleep --subject os-timeout
  --subject tokio-interval --subject tokio-sleep-reused --subject tokio-timeout --subject nanosleep --subject spin"""
PERIODS = """run --no-samples --duration 5s
  --period 50us --period 100us --period 250us --period 1ms --period 2ms --period 10ms
  --subject os-interval --subject os-interval-precise --subject periodic-interval
  --subject tokio-interval --subject tokio-busy
  --subject busypoll-interval --subject busypoll-parked --subject busypoll-io-uring
  --subject nanosleep --subject io-uring-wait --subject spin"""

SPIN = """run --no-samples --duration 5s
  --period 20us --period 50us --period 100us --period 500us --period 2ms --period 10ms
  --subject os-interval --subject os-interval-precise --subject os-interval-spin --subject spin"""


def compressed_measurement(words, with_rounds=True):
    """Returns a measurement whose report is compressed, and has no rounds unless `with_rounds` is set."""
    def measure(run):
        osjitter_measurement(words)(run)
        run.compress_report(with_rounds)
    return measure


def measure_clocks(run):
    osjitter_measurement(tables.CLOCK_COMMAND)(run)
    run.save("peers-clock.json", output_json(build_peer("peers-clock")))


def measure_dispatch(run):
    peer = build_peer("peer-dispatch")
    osjitter_measurement("bench dispatch --rounds 100")(run)
    with tempfile.TemporaryDirectory(dir=run.directory) as part:
        subprocess.run([peer, "--rounds", "100", "--out", part], check=True)
        for file in pathlib.Path(part).glob("peers-dispatch.*"):
            file.rename(run.path(file.name))


def measure_slots(run):
    bench = ["cargo", "bench", "--locked", "-p", "osinterval", "--bench", "slots"]
    subprocess.run([*bench, "--no-run"], cwd=ROOT, check=True)
    load_before = round(os.getloadavg()[0], 2)
    rows = output_json(*bench, *(["--", "--short"] if run.short else []))
    run.save("slots.json", {"host": this_machine(), "commit": commit(), "load_before": load_before, "rows": rows})


def measure_counts(run):
    program = build_peer("peers-osinterval")
    load_before = round(os.getloadavg()[0], 2)
    report = output_json(program, *(["--short"] if run.short else []), "counts")
    is_real_time = os.sched_getscheduler(0) == os.SCHED_FIFO
    run.save("counts.json", {"host": this_machine(), "commit": commit(), "load_before": load_before,
                             "is_real_time": is_real_time, **report})


def count_system_calls(program, contender, ticks, log):
    """Counts the calls to timers, pollers and `read` in a run of a contender."""
    calls = ("timerfd_settime", "epoll_wait", "read")
    trace = ["strace", "-f", "-c", "-e", f"trace={','.join(calls)}", "-o", log]
    subprocess.run([*trace, program, "ticks", contender, str(ticks)], check=True, stdout=subprocess.DEVNULL)
    rows = [line.split() for line in log.read_text().splitlines()]
    return sum(int(row[3]) for row in rows if row and row[-1] in calls)


def measure_osinterval(run):
    program = build_peer("peers-osinterval")
    report = output_json(program, *(["--short"] if run.short else []))
    contenders = ["os-interval", "periodic-interval", "tokio-osinterval", "tokio-osinterval-periodic",
                  "tokio-hrtime", "async-timer"]
    with tempfile.TemporaryDirectory() as home:
        log = pathlib.Path(home) / "strace"
        # The difference between two lengths excludes the calls at start and end.
        calls = {name: [count_system_calls(program, name, ticks, log) for ticks in (1000, 4000)]
                 for name in contenders}
    report["syscalls_per_tick_1ms"] = {name: (many - few) / 3000 for name, (few, many) in calls.items()}
    report |= {"machine": cpu_and_kernel(), "commit": commit()}
    run.save("peers-osinterval.json", report)


def measure_tokio_turn(run):
    """Measures the steps from a sleeping thread to an interval, and settings of tokio's runtime; keeps three figures of each round.

    The program has a real-time priority, so that no other program takes its CPU. Needs root.
    """
    program = build_study("tick-costs")
    report = {"host": this_machine(), "date": datetime.date.today().isoformat(), "commit": commit()}
    for part, mode, rounds, period_us in (("idle_500us", "runtime", 40, 500), ("idle_10ms", "runtime", 10, 10_000), ("busy_500us", "busy", 20, 500)):
        measurement = output_json("chrt", "-f", "50", program, mode, str(2 if run.short else rounds), str(period_us))
        for contender in measurement["contenders"]:
            for each in contender["rounds"]:
                late = sorted(each.pop("late_ns"))
                each |= {"p50_ns": tables.nearest_rank(late, 0.5), "p90_ns": tables.nearest_rank(late, 0.9)}
        report[part] = {contender["name"]: contender["rounds"] for contender in measurement["contenders"]}
    run.save("tokio-turn.json", report)


def measure_tokio_unstable(run):
    # A separate build, because the flag applies to every crate.
    program = build_peer("peers-osinterval", target="target/tokio-unstable", RUSTFLAGS="--cfg tokio_unstable")
    report = output_json(program, *(["--short"] if run.short else []), "tokio_unstable")
    lock = (STUDIES / "Cargo.lock").read_text()
    version = re.search(r'name = "tokio"\nversion = "([^"]+)"', lock)[1]
    run.save("tokio-unstable.json", report | {"machine": cpu_and_kernel(), "tokio": version})


def list_differences(checkup, key):
    """Returns the differences that a proof with one subject shows for a setting."""
    rows = checkup["proof"]["subjects"][0]["rows"]
    outcome = next(row["outcome"] for row in rows if row["key"] == key)
    if outcome["state"] != "measured":
        return outcome["state"]
    changes = {name: change for name, change in outcome["differences"].items()
               if change and change["shown"] in ("less", "more")}
    shown = {name: [change["shown"], change["ratio"], change["ratio_interval"]] for name, change in changes.items()}
    return shown or "no difference shown"


def measure_doctor(run):
    """Proves the unchanged machine, then with handicaps, to check whether the doctor finds them. Needs root and two CPUs."""
    def prove(name, *subject, seconds=60, enter=None):
        run.osjitter("doctor", "--prove", "--quiet", "--max-time", f"{seconds}s", "--format", "json", "--force", "--out",
                     run.path(f"{name}.json"), *subject, preexec_fn=enter)
        return run.load(f"{name}.json")

    plain = prove("doctor", seconds=90)
    slack = prove("doctor-slack", "--subject", "tokio-interval", enter=lambda: set_timer_slack(10_000_000))
    with hogs(1, cpu=0):
        busy = prove("doctor-busy", "--subject", "os-interval")
    with hogs(1, cpu=0, real_time=True):
        preempted = prove("doctor-real-time", "--subject", "os-interval")
    with quota(0.2) as enter:
        throttled = prove("doctor-quota", "--subject", "os-interval", enter=enter)
    item = next(item for item in throttled["items"] if item["key"] == "quota")
    found = {"no handicap: no change (control)": list_differences(plain, "again"),
             "timer slack of 10 ms: timer slack 1 ns": list_differences(slack, "slack"),
             "timer slack of 10 ms: no change (control)": list_differences(slack, "again")}
    for neighbour, checkup in (("busy", busy), ("real-time", preempted)):
        for change, key in (("CPU 0 only", "cpu-0"), ("CPU 1 only", "cpu-1"), ("no change (control)", "again")):
            found[f"{neighbour} neighbour on CPU 0: {change}"] = list_differences(checkup, key)
    found |= {"quota of 20 %: the line of the doctor": [item["weight"], item["value"]],
              "quota of 20 %: reasons of the fitness": [r["cause"] for r in throttled["proof"]["fitness"]["reasons"]],
              "quota of 20 %: no change (control)": list_differences(throttled, "again"),
              "load average while it ran": os.getloadavg()}
    run.path("found.json").write_text(json.dumps(found, indent=1) + "\n")


def measure_settings(run):
    """Tries two settings of a user: a process that keeps the CPUs awake, and a command that changes nothing. Needs root."""
    awake = "awake=sh -c 'exec 3>/dev/cpu_dma_latency && echo 0 >&3 && sleep infinity &'"
    run.osjitter("doctor", "--prove", "--quiet", "--subject", "os-interval", "--try", awake, "--undo", "true", "--try", "idle=true",
                 "--undo", "true", "--format", "json", "--force", "--out", run.path("settings.json"))


def measure_flight(run):
    """Stalls a monitor for known reasons, and compares the lateness with and without its recording. Needs root."""
    osjitter = run.command()[0]
    service = ["cargo", "build", "--release", "--locked", "-p", "tickmeter", "--features", "tokio", "--example", "service"]
    subprocess.run(service, cwd=ROOT, check=True)
    study = [sys.executable, ROOT / "scripts/studies/monitor-flight.py", "30", osjitter, ROOT / "target/release/examples/service"]
    completed = subprocess.run([*study, run.path("flight.json")], stdout=subprocess.DEVNULL)
    run.save("flight.json", run.load("flight.json") | {"host": this_machine()})
    completed.check_returncode()


def measure_functions(run):
    """Makes programs late in known functions, and counts the late ticks for which the function is named."""
    study = [sys.executable, STUDIES / "late-functions.py", run.command()[0], build_study("late-service")]
    completed = subprocess.run([*study, run.path("functions.json")], stdout=subprocess.DEVNULL)
    run.save("functions.json", run.load("functions.json") | {"host": this_machine(), "commit": commit()})
    completed.check_returncode()


RECIPES = {
    "reference": Recipe("tickers at 500 us: table and pictures of the README", compressed_measurement(REFERENCE),
                        tables.reference),
    "periods": Recipe("tickers at six periods", compressed_measurement(PERIODS, with_rounds=False), tables.periods),
    "spin": Recipe("the precise mode at periods from 20 us, with and without its limit",
                   compressed_measurement(SPIN, with_rounds=False), tables.spin),
    "timeout": Recipe("cost of timeouts per message", osjitter_measurement("bench timeout --clock tokio --clock tach --clock quanta"),
                      tables.timeouts, features="quanta"),
    "dispatch": Recipe("operations of busypoll, tokio and nexus-async-rt", measure_dispatch, tables.dispatch),
    "clock": Recipe("cost, order and drift of clocks, also of other crates", measure_clocks, tables.clocks),
    "slots": Recipe("lateness against CPU time for the slots of an IntervalGroup", measure_slots, tables.slots,
                    has_short=True),
    "find": Recipe("shortest periods that this machine holds", osjitter_measurement(f"{tables.FIND_COMMAND} --quiet"),
                   tables.find),
    "doctor": Recipe("effect of settings, and of injected handicaps; as root", measure_doctor, tables.doctor),
    "settings": Recipe("effect of settings of a user; as root", measure_settings, tables.settings),
    "flight": Recipe("stalls that the flight records of a monitor name, and the cost of recording; as root", measure_flight,
                     tables.flight),
    "functions": Recipe("late ticks of programs whose function is named; takes four minutes", measure_functions,
                        tables.functions),
    "osinterval": Recipe("osinterval and other crates; needs strace", measure_osinterval, tables.osinterval,
                         has_short=True),
    "counts": Recipe("one to ten thousand intervals with a shared timer and with one each; takes two minutes",
                     measure_counts, tables.counts, has_short=True),
    "runtimes": Recipe("the timers of tokio and other runtimes; needs strace", runtimes.measure, runtimes.write, has_short=True),
    "threads": Recipe("intervals of threads without a runtime, quiet and with busy CPUs", threads.measure, threads.write),
    "tokio-turn": Recipe("the cost of a turn of tokio's runtime, and of its settings; as root", measure_tokio_turn, tables.tokio_turn,
                         has_short=True),
    "tokio-unstable": Recipe("tokio's alternative timer and eager driver hand-off", measure_tokio_unstable,
                             tables.tokio_unstable, has_short=True),
}


def main():
    recipes = "\n".join(f"  {name:16}{recipe.about}" for name, recipe in RECIPES.items())
    parser = argparse.ArgumentParser(description=f"{__doc__}\nRecipes:\n{recipes}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=RECIPES, metavar="RECIPE")
    parser.add_argument("name", metavar="NAME", help="directory in results/")
    parser.add_argument("--tables", action="store_true", help="make tables and pages from existing files")
    parser.add_argument("--short", action="store_true", help="measure only a few rounds and change no page")
    parser.add_argument("--osjitter", type=pathlib.Path, help="program to use [default: a release build]")
    args = parser.parse_args()
    recipe = RECIPES[args.recipe]
    if args.short and not recipe.has_short:
        parser.error(f"{args.recipe} does not support --short")
    run = Run(args.recipe, args.name, args.osjitter and args.osjitter.resolve(), args.short)
    run.directory.mkdir(parents=True, exist_ok=True)
    if not args.tables:
        recipe.measure(run)
    recipe.write(run)
    print(run.directory.relative_to(ROOT))


main()
