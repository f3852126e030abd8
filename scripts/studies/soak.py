"""Runs `run`, `gate`, `monitor`, `top` and meters together under load for hours, to find leaks and lost ticks.

  scripts/studies/soak.py HOURS [NAME]      writes target/soak.json, or results/NAME/soak.json and a sentence of the book
  scripts/studies/soak.py --publish NAME    writes only the sentence, from results/NAME/soak.json

Three processes run all the time: a monitor with probes, a service whose meter the monitor reads, and one `osjitter run` without
samples. Short commands run one after the other: runs under CPU load, gates of a program against itself, and `osjitter top`. The
study checks:

- Memory, descriptors and threads of the long processes do not grow.
- Each report accounts for every tick, no tick is early, and the clock of the counter is within its bound.
- Each gate ends correctly and leaves no process and no file.
- The meter never decreases, and in the end files, counters and meter agree.
- The temporary directory is empty in the end.

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
from long_run import maximum, read_counters, read_log, read_process  # noqa: E402, in this directory
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
        f"In {summary['hours']:g} hours there were {summary['ticks'] / 1e6:.1f} million ticks, each accounted for, "
        f"{summary['early'] or 'none'} early. {summary['runs']} runs and {gates} gates ran at the same time and left no process and no file. "
        f"The private memory of the monitor was {format_memory(summary, 'monitor')}, that of the service "
        f"{format_memory(summary, 'service')}. The counter's rate was within "
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
# The baseline of the memory is taken at this time.
SETTLED_S = min(120.0, HOURS * 3_600 / 3)

home = Path(tempfile.mkdtemp(prefix="soak-"))
programs = home / "programs"
programs.mkdir()
# A soak uses the same programs from start to end.
built = {"osjitter": "osjitter", "loop": "examples/gated-loop", "service": "examples/service"}
OSJITTER, LOOP, SERVICE = (shutil.copy(ROOT / "target/release" / built[name], programs / name) for name in built)
temporary = home / "tmp"
temporary.mkdir()
environment = {**os.environ, "TICKMETER_DIR": str(home / "meters"), "TMPDIR": str(temporary)}
failures, counts = [], {"runs": 0, "gates": {}, "looks": 0, "ticks": 0, "early": 0}
rates_ppb = []


def start(*command, stderr):
    return subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, stderr=stderr.open("w"))


def run(*command):
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=900)


def check(condition, message):
    if not condition:
        failures.append(f"{time.monotonic() - start_time:.0f} s: {message}")
        print(failures[-1], file=sys.stderr)


def check_report(file, expected):
    """Checks that every tick is delivered, coalesced or skipped, that none is early, and that the clocks agree."""
    report = json.loads(file.read_text())
    check(not report["partial"], f"{file}: interrupted")
    for subject in report["subjects"]:
        summary = subject["summary"]
        total = summary["delivered"] + summary["coalesced"] + summary["skipped"]
        check(total == summary["ticks"] == expected, f"{subject['id']}: {total} ticks, expected {expected}")
        check(summary["early"] == 0, f"{subject['id']}: {summary['early']} early ticks")
        counts["ticks"] += total
        counts["early"] += summary["early"]
    clock = report["clock"]
    check(clock["error_bound_ns"] < 100_000, f"the error bound of the clock is {clock['error_bound_ns']} ns")
    if clock["rate_error_ppb"] is not None:
        rates_ppb.append(clock["rate_error_ppb"])


def run_once():
    out = home / "run"
    completed = run(OSJITTER, "run", "--quiet", "--no-progress", "--subject", "os-interval", "--subject", "tokio-interval", "--ticks",
                    RUN_TICKS, "--load", "cpu:1", "--out", out)
    if completed.returncode:
        return check(False, f"run exited with {completed.returncode}: {completed.stderr.strip()}")
    check_report(out / "report.json", RUN_TICKS)
    shutil.rmtree(out)
    counts["runs"] += 1


def gate_once():
    out = home / "gate"
    completed = run(OSJITTER, "gate", "--quiet", "--period", "500us", "--base-cmd", LOOP, "--candidate-cmd", LOOP,
                    "--out", out)
    if completed.returncode not in (0, 1, 3):
        return check(False, f"gate exited with {completed.returncode}: {completed.stderr.strip()}")
    verdict = json.loads((out / "verdict.json").read_text())["verdict"]
    # An undecided gate exits with 0 by default.
    check((completed.returncode == 1) == (verdict == "regressed"), f"exit code {completed.returncode} with the verdict {verdict}")
    counts["gates"][verdict] = counts["gates"].get(verdict, 0) + 1
    remaining = [line for line in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines()
                 if line.startswith(str(LOOP))]
    check(not remaining, f"processes remain after a gate: {remaining}")
    shutil.rmtree(out, ignore_errors=True)


def read_meter_once(last):
    """Returns the ticks in the meter of the service, as `osjitter top` prints them; `last` if it fails."""
    completed = run(OSJITTER, "top", "--once", "--window", "1s", "--format", "json")
    if completed.returncode:
        check(False, f"top exited with {completed.returncode}: {completed.stderr.strip()}")
        return last
    (recorded,) = (m["total"]["ticks"] for m in json.loads(completed.stdout)["meters"] if m["pid"] == service.pid)
    check(recorded >= last, f"the meter decreased from {last} to {recorded}")
    counts["looks"] += 1
    return recorded


log = home / "log"
start_time = time.monotonic()
matrix = [w for s in SUBJECTS for w in ("--subject", s)] + [w for p in PERIODS for w in ("--period", p)]
long_ticks = max(LONG_ROUND, int(HOURS * 3_600 / LONG_PERIOD_S * 0.97) // LONG_ROUND * LONG_ROUND)
long_out = home / "long"
monitor_log = home / "monitor.log"
# With the default budget, the monitor would lengthen its periods until a tenth of the ticks remains.
monitor = start(OSJITTER, "monitor", *matrix, "--interval", "60s", "--budget", "20%", "--log", log, "--listen", "127.0.0.1:0",
                "--limit", "max=60s", stderr=monitor_log)
long_run = start(OSJITTER, "run", "--quiet", "--no-progress", "--no-samples", "--subject", "os-interval", "--period", "2ms", "--ticks",
                 long_ticks, "--round-ticks", LONG_ROUND, "--out", long_out, stderr=home / "long.log")
watched, samples = {"monitor": monitor, "run": long_run}, {"monitor": [], "service": [], "run": []}
recorded, last_print = 0, 0.0
# The last counters of each loop; the monitor shows a loop for a while after its end.
counters = {}
try:
    while "metrics: http" not in monitor_log.read_text():
        assert monitor.poll() is None, monitor_log.read_text()
        time.sleep(0.05)
    (url,) = (line.split()[1] for line in monitor_log.read_text().splitlines() if line.startswith("metrics: "))
    # The monitor is already running, so it reads the meter of the service from the first tick.
    service = watched["service"] = start(SERVICE, stderr=home / "service.log")
    time.sleep(2)
    turn = 0
    while (elapsed := time.monotonic() - start_time) < HOURS * 3_600:
        for name, process in watched.items():
            if process.poll() is None:
                samples[name].append({"at_s": round(elapsed, 1), **read_process(process.pid)})
            elif name != "run" or process.returncode:
                check(False, f"the {name} exited with {process.returncode}")
                raise SystemExit(1)
        counters.update(read_counters(url))
        (run_once, gate_once)[turn % 2]()
        recorded = read_meter_once(recorded)
        turn += 1
        if elapsed - last_print > 300:
            print(f"{elapsed:.0f} s: {counts}", file=sys.stderr)
            last_print = elapsed
    check(long_run.wait(3_600) == 0, f"the long run exited with {long_run.returncode}: {(home / 'long.log').read_text()}")
    # The meter of a stopped service remains and must be read once more.
    service.send_signal(signal.SIGSTOP)
    time.sleep(2)
    recorded = read_meter_once(recorded)
    counters.update(read_counters(url))
    monitor.terminate()
    check(monitor.wait(60) == 0, f"the monitor exited with {monitor.returncode}: {monitor_log.read_text()}")
finally:
    for process in watched.values():
        if process.poll() is None:
            process.kill()
            process.wait()

check_report(long_out / "report.json", long_ticks)
ticks, unequal, intervals = read_log(log)
counted = lambda label: sum(value for name, value in counters.items() if name.startswith("osjitter_ticks_total") and label in name)
in_files = lambda condition: sum(n for loop, n in ticks.items() if condition(loop))
service_ticks, probe_ticks = in_files(lambda loop: loop[2] == "service"), in_files(lambda loop: loop[2] is None)
check(unequal == 0, f"the bins of {unequal} intervals have a different number of ticks")
check(service_ticks == recorded == counted('program="service"'), f"the service's ticks: {service_ticks} in files, {recorded} in its meter")
# The probes continue to tick between the last scrape and the end.
probes_counted = counted('subject="')
check(0 <= probe_ticks - probes_counted <= 10 * 500 * len(SUBJECTS) * len(PERIODS),
      f"the probes' ticks: {probe_ticks} in files, {probes_counted:.0f} counted before the end")
check(counters["osjitter_intervals_lost_total"] == 0 and counters["osjitter_probes_ended_total"] == 0, "an interval or a probe was lost")
remaining = sorted(path.name for path in temporary.iterdir())
check(not remaining, f"files remain in the temporary directory: {remaining}")
resources = {}
for name, all_samples in samples.items():
    settled = [sample for sample in all_samples if sample["at_s"] >= SETTLED_S]
    first = settled[0]
    resources[name] = {
        "rss_kb": [first["rss_kb"], maximum(settled, "rss_kb"), settled[-1]["rss_kb"]],
        # Private memory excludes mapped files, because code is loaded on first use.
        "own_kb": [first["own_kb"], maximum(settled, "own_kb"), settled[-1]["own_kb"]],
        "descriptors": [first["descriptors"], maximum(settled, "descriptors")],
        "threads": [first["threads"], maximum(settled, "threads")],
    }
    # A run keeps its ticks until its report is written.
    allowed = 1_024 + (long_ticks * 32 / 1_024 if name == "run" else 0)
    check(maximum(settled, "own_kb") - first["own_kb"] < allowed, f"the {name} grew: {resources[name]}")
    check(maximum(settled, "descriptors") <= first["descriptors"] + 4 and maximum(settled, "threads") <= first["threads"] + 4,
          f"the {name} has more descriptors or threads than before: {resources[name]}")
counts["ticks"] += service_ticks + probe_ticks
summary = {
    "schema": "osjitter-soak", "osjitter": run(OSJITTER, "--version").stdout.strip(), "kernel": platform.release(),
    "cpus": os.cpu_count(), "hours": HOURS, **counts, "probe_ticks": probe_ticks, "service_ticks": service_ticks,
    "long_run_ticks": long_ticks, "intervals": intervals, "held": resources,
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
