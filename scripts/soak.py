"""The part of scripts/soak.sh that watches.

All the time run: a monitor with probes, which also watches the meter of a service; that service; and one `osjitter run` as long
as the soak, without samples. Beside them come and go, one after the other: runs beside a load of the processor, gates of a
program against itself, and looks by `osjitter top`. Checked are, of the long ones, that memory, descriptors and threads stay
as they are; of every report, that each tick asked for is accounted for, none early, and that the counter's clock stays within
its bound of the kernel's; of every gate, that it ended as a gate does and left no process and no file; of the meter, that it
never goes back, and in the end that files, counters and meter agree; and that nothing is left in the temporary directory.
Exit code 1 where a check fails."""

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
from watched import counters, most, process, read_log  # noqa: E402, beside this script

HOURS, OUT = float(sys.argv[1]), Path(sys.argv[2])
PERIODS = ["2ms", "5ms"]
SUBJECTS = ["os-interval", "os-interval-group"]
LONG_PERIOD_S, LONG_ROUND = 0.002, 5_000
RUN_TICKS = 4_000
# Memory is compared with what it is then.
SETTLED_S = min(120.0, HOURS * 3_600 / 3)

home = Path(tempfile.mkdtemp(prefix="soak-"))
programs = home / "programs"
programs.mkdir()
# A soak ends with the programs it began with.
built = {"osjitter": "osjitter", "loop": "examples/gated-loop", "service": "examples/service"}
OSJITTER, LOOP, SERVICE = (shutil.copy(Path("target/release") / built[name], programs / name) for name in built)
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


def check_report(file, asked):
    """Every tick that was asked for is delivered, part of another, or skipped; none is early; the clocks agree."""
    report = json.loads(file.read_text())
    check(not report["partial"], f"{file}: cut short")
    for subject in report["subjects"]:
        summary = subject["summary"]
        total = summary["delivered"] + summary["coalesced"] + summary["skipped"]
        check(total == summary["ticks"] == asked, f"{subject['id']}: {total} of {asked} ticks")
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
    ran = ended(OSJITTER, "gate", "--quiet", "--period", "500us", "--baseline-cmd", LOOP, "--candidate-cmd", LOOP,
                "--out", out)
    if ran.returncode not in (0, 1, 3):
        return check(False, f"gate ended with {ran.returncode}: {ran.stderr.strip()}")
    verdict = json.loads((out / "verdict.json").read_text())["verdict"]
    # What is undecided fails no job unless that is asked for.
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
# With the default budget its probes would be stretched to a tenth of the ticks.
monitor = started(OSJITTER, "monitor", *matrix, "--interval", "60s", "--budget", "20%", "--log", log, "--listen", "127.0.0.1:0",
                  "--limit", "max=60s", said=monitor_said)
long_run = started(OSJITTER, "run", "--quiet", "--no-progress", "--no-samples", "--subject", "os-interval", "--period", "2ms", "--ticks",
                   long_ticks, "--round-ticks", LONG_ROUND, "--out", long_out, said=home / "long.log")
watched, samples = {"monitor": monitor, "run": long_run}, {"monitor": [], "service": [], "run": []}
booked, shown = 0, 0.0
# A loop that has ended is shown for a while: its counters are the last that were seen.
seen = {}
try:
    while "metrics: http" not in monitor_said.read_text():
        assert monitor.poll() is None, monitor_said.read_text()
        time.sleep(0.05)
    (url,) = (line.split()[1] for line in monitor_said.read_text().splitlines() if line.startswith("metrics: "))
    # From its first tick on, the monitor sees it.
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
    # Its meter stays as it is, to be asked what it has booked.
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
in_files = lambda keep: sum(n for of, n in ticks.items() if keep(of))
service_ticks, probe_ticks = in_files(lambda of: of[2] == "service"), in_files(lambda of: of[2] is None)
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
                  # Without the pages of files: its code comes in as it is first used.
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
sys.exit(1 if failures else 0)
