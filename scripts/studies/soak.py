"""Runs `run`, `gate`, `monitor`, `top` and meters together under load for hours, to find leaks and lost ticks.

  scripts/studies/soak.py HOURS [NAME]      writes target/soak.json, or results/NAME/soak.json and a sentence of the book
  scripts/studies/soak.py --publish NAME    only the sentence, from results/NAME/soak.json

The whole time run: a monitor with probes, which also reads the meter of a service; that service; and one `osjitter run` as
long as the soak, without samples. Short commands run one after the other: runs under CPU load, gates of a program against
itself, and `osjitter top`. Checked are

- of the long ones: memory, descriptors and threads do not grow;
- of every report: each tick is accounted for, none is early, and the counter's clock is within its bound;
- of every gate: it ended correctly and left no process and no file;
- of the meter: it never goes back, and in the end files, counters and meter agree;
- the temporary directory is empty.

Exits with 1 if a check fails.
"""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from long_run import counters, most, process, read_log  # noqa: E402, in this directory
from programs import build_osjitter  # noqa: E402, in scripts/results

ROOT = pages.ROOT


def format_memory(summary, program):
    first, largest, _ = summary["held"][program]["own_kb"]
    return f"{first / 1_024:.1f} MB after two minutes and {largest / 1_024:.1f} MB at most"


def publish(name):
    """Writes the sentence of the book."""
    summary = json.loads((ROOT / "results" / name / "soak.json").read_text())
    assert not summary["failures"], summary["failures"]
    gates = sum(summary["gates"].values())
    low, high = summary["clock_rate_error_ppb"]
    pages.put("soak", (
        f"In {summary['hours']:g} hours {summary['ticks'] / 1e6:.1f} million ticks, each accounted for, {summary['early'] or 'none'} early; "
        f"{summary['runs']} runs and {gates} gates ran at the same time and left no process and no file. Of memory of its own the monitor had "
        f"{format_memory(summary, 'monitor')}, the service {format_memory(summary, 'service')}. The counter's rate was within "
        f"{max(abs(low), abs(high)):.0f} ppb of the kernel's clock ([the report](results/{name}/soak.json))."))


if len(sys.argv) < 2:
    sys.exit(__doc__)
if sys.argv[1] == "--publish":
    sys.exit(publish(sys.argv[2]))
HOURS, NAME = float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
OUT = ROOT / (f"results/{NAME}/soak.json" if NAME else "target/soak.json")
OUT.parent.mkdir(parents=True, exist_ok=True)
build_osjitter("--example", "gated-loop")
subprocess.run(["cargo", "build", "--release", "--locked", "--package", "tickmeter", "--all-features", "--example", "service"],
               cwd=ROOT, check=True)
PERIODS = ["2ms", "5ms"]
SUBJECTS = ["os-interval", "os-interval-group"]
LONG_PERIOD_S, LONG_ROUND = 0.002, 5_000
RUN_TICKS = 4_000
# Memory is compared with its size at this time.
SETTLED_S = min(120.0, HOURS * 3_600 / 3)

home = Path(tempfile.mkdtemp(prefix="soak-"))
programs = home / "programs"
programs.mkdir()
# A soak ends with the programs that it started with.
built = {"osjitter": "osjitter", "loop": "examples/gated-loop", "service": "examples/service"}
OSJITTER, LOOP, SERVICE = (shutil.copy(ROOT / "target/release" / built[name], programs / name) for name in built)
temporary = home / "tmp"
temporary.mkdir()
environment = {**os.environ, "TICKMETER_DIR": str(home / "meters"), "TMPDIR": str(temporary)}
failures, counts = [], {"runs": 0, "gates": {}, "looks": 0, "ticks": 0, "early": 0}
rates_ppb = []


def started(*command, said):
    return subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, stderr=said.open("w"))


def ended(*command):
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=900)


def check(holds, what):
    if not holds:
        failures.append(f"{time.monotonic() - began:.0f} s: {what}")
        print(failures[-1], file=sys.stderr)


def check_report(file, expected):
    """Checks that every tick is delivered, coalesced or skipped, that none is early, and that the clocks agree."""
    report = json.loads(file.read_text())
    check(not report["partial"], f"{file}: cut short")
    for subject in report["subjects"]:
        summary = subject["summary"]
        total = summary["delivered"] + summary["coalesced"] + summary["skipped"]
        check(total == summary["ticks"] == expected, f"{subject['id']}: {total} of {expected} ticks")
        check(summary["early"] == 0, f"{subject['id']}: {summary['early']} early")
        counts["ticks"] += total
        counts["early"] += summary["early"]
    clock = report["clock"]
    check(clock["error_bound_ns"] < 100_000, f"the clock's error may be {clock['error_bound_ns']} ns")
    if clock["rate_error_ppb"] is not None:
        rates_ppb.append(clock["rate_error_ppb"])


def run_once():
    out = home / "run"
    ran = ended(OSJITTER, "run", "--quiet", "--no-progress", "--subject", "os-interval", "--subject", "tokio-interval", "--ticks",
                RUN_TICKS, "--load", "cpu:1", "--out", out)
    if ran.returncode:
        return check(False, f"run ended with {ran.returncode}: {ran.stderr.strip()}")
    check_report(out / "report.json", RUN_TICKS)
    shutil.rmtree(out)
    counts["runs"] += 1


def gate_once():
    out = home / "gate"
    ran = ended(OSJITTER, "gate", "--quiet", "--period", "500us", "--base-cmd", LOOP, "--candidate-cmd", LOOP,
                "--out", out)
    if ran.returncode not in (0, 1, 3):
        return check(False, f"gate ended with {ran.returncode}: {ran.stderr.strip()}")
    verdict = json.loads((out / "verdict.json").read_text())["verdict"]
    # An undecided gate exits with 0 by default.
    check((ran.returncode == 1) == (verdict == "regressed"), f"{verdict}, and exit {ran.returncode}")
    counts["gates"][verdict] = counts["gates"].get(verdict, 0) + 1
    left = [line for line in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines()
            if line.startswith(str(LOOP))]
    check(not left, f"after a gate there is still {left}")
    shutil.rmtree(out, ignore_errors=True)


def look_once(last):
    looked = ended(OSJITTER, "top", "--once", "--window", "1s", "--format", "json")
    if looked.returncode:
        check(False, f"top ended with {looked.returncode}: {looked.stderr.strip()}")
        return last
    (booked,) = (m["total"]["ticks"] for m in json.loads(looked.stdout)["meters"] if m["pid"] == service.pid)
    check(booked >= last, f"the meter went back from {last} to {booked}")
    counts["looks"] += 1
    return booked


log = home / "log"
began = time.monotonic()
matrix = [w for s in SUBJECTS for w in ("--subject", s)] + [w for p in PERIODS for w in ("--period", p)]
long_ticks = max(LONG_ROUND, int(HOURS * 3_600 / LONG_PERIOD_S * 0.97) // LONG_ROUND * LONG_ROUND)
long_out = home / "long"
monitor_said = home / "monitor.log"
# With the default budget, the monitor would lengthen its periods to a tenth of the ticks.
monitor = started(OSJITTER, "monitor", *matrix, "--interval", "60s", "--budget", "20%", "--log", log, "--listen", "127.0.0.1:0",
                  "--limit", "max=60s", said=monitor_said)
long_run = started(OSJITTER, "run", "--quiet", "--no-progress", "--no-samples", "--subject", "os-interval", "--period", "2ms", "--ticks",
                   long_ticks, "--round-ticks", LONG_ROUND, "--out", long_out, said=home / "long.log")
watched, samples = {"monitor": monitor, "run": long_run}, {"monitor": [], "service": [], "run": []}
booked, shown = 0, 0.0
# The last counters of each loop; the monitor shows a loop for a while after its end.
seen = {}
try:
    while "metrics: http" not in monitor_said.read_text():
        assert monitor.poll() is None, monitor_said.read_text()
        time.sleep(0.05)
    (url,) = (line.split()[1] for line in monitor_said.read_text().splitlines() if line.startswith("metrics: "))
    # The monitor is already running, so it sees the service from its first tick.
    service = watched["service"] = started(SERVICE, said=home / "service.log")
    time.sleep(2)
    turn = 0
    while (past := time.monotonic() - began) < HOURS * 3_600:
        for name, running in watched.items():
            if running.poll() is None:
                samples[name].append({"at_s": round(past, 1), **process(running.pid)})
            elif name != "run" or running.returncode:
                check(False, f"the {name} ended with {running.returncode}")
                raise SystemExit(1)
        seen.update(counters(url))
        (run_once, gate_once)[turn % 2]()
        booked = look_once(booked)
        turn += 1
        if past - shown > 300:
            print(f"{past:.0f} s: {counts}", file=sys.stderr)
            shown = past
    check(long_run.wait(3_600) == 0, f"the long run ended with {long_run.returncode}: {(home / 'long.log').read_text()}")
    # A stopped service keeps its meter, which still has to be read.
    service.send_signal(signal.SIGSTOP)
    time.sleep(2)
    booked = look_once(booked)
    seen.update(counters(url))
    monitor.terminate()
    check(monitor.wait(60) == 0, f"the monitor ended with {monitor.returncode}: {monitor_said.read_text()}")
finally:
    for running in watched.values():
        if running.poll() is None:
            running.kill()
            running.wait()

check_report(long_out / "report.json", long_ticks)
ticks, unequal, intervals = read_log(log)
counted = lambda label: sum(value for name, value in seen.items() if name.startswith("osjitter_ticks_total") and label in name)
in_files = lambda keep: sum(n for loop, n in ticks.items() if keep(loop))
service_ticks, probe_ticks = in_files(lambda loop: loop[2] == "service"), in_files(lambda loop: loop[2] is None)
check(unequal == 0, f"{unequal} intervals whose bins have other ticks")
check(service_ticks == booked == counted('program="service"'), f"the service's ticks: {service_ticks} in files, {booked} in its meter")
# The probes tick on between the last scrape and the end.
probes_counted = counted('subject="')
check(0 <= probe_ticks - probes_counted <= 10 * 500 * len(SUBJECTS) * len(PERIODS),
      f"the probes' ticks: {probe_ticks} in files, {probes_counted:.0f} counted before the end")
check(seen["osjitter_intervals_lost_total"] == 0 and seen["osjitter_probes_ended_total"] == 0, "an interval or a probe was lost")
left = sorted(path.name for path in temporary.iterdir())
check(not left, f"left in the temporary directory: {left}")
held = {}
for name, all_samples in samples.items():
    settled = [sample for sample in all_samples if sample["at_s"] >= SETTLED_S]
    first = settled[0]
    held[name] = {"rss_kb": [first["rss_kb"], most(settled, "rss_kb"), settled[-1]["rss_kb"]],
                  # Without pages of files, since code is loaded on first use.
                  "own_kb": [first["own_kb"], most(settled, "own_kb"), settled[-1]["own_kb"]],
                  "descriptors": [first["descriptors"], most(settled, "descriptors")],
                  "threads": [first["threads"], most(settled, "threads")]}
    # A run keeps its ticks until it has written its report.
    allowed = 1_024 + (long_ticks * 32 / 1_024 if name == "run" else 0)
    check(most(settled, "own_kb") - first["own_kb"] < allowed, f"the {name} grew: {held[name]}")
    check(most(settled, "descriptors") <= first["descriptors"] + 4 and most(settled, "threads") <= first["threads"] + 4,
          f"the {name} holds more than before: {held[name]}")
counts["ticks"] += service_ticks + probe_ticks
summary = {
    "schema": "osjitter-soak", "osjitter": ended(OSJITTER, "--version").stdout.strip(), "kernel": platform.release(),
    "cpus": os.cpu_count(), "hours": HOURS, **counts, "probe_ticks": probe_ticks, "service_ticks": service_ticks,
    "long_run_ticks": long_ticks, "intervals": intervals, "held": held,
    "clock_rate_error_ppb": [min(rates_ppb), max(rates_ppb)] if rates_ppb else None, "failures": failures,
}
text = json.dumps(summary, indent=2)
print(text)
OUT.write_text(text + "\n")
shutil.rmtree(home)
if NAME:
    pages.index(NAME, [(f"`{NAME}`", "soak.json")], pages.this_machine(), "`scripts/studies/soak.py`, other builds running")
    publish(NAME)
sys.exit(1 if failures else 0)
