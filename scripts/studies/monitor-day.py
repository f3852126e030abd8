#!/usr/bin/env python3
"""Runs the ticks of a monitor's day in 40 minutes, to check that nothing grows and no tick is lost.

  python3 scripts/studies/monitor-day.py HOURS [OSJITTER [SERVICE [OUT]]]

Many probes at short periods produce the ticks. A program with a meter (the example `service` of tickmeter) is watched from
beginning to end, and others start and end at the same time. The monitor serves metrics and writes its log. Checked are its memory,
descriptors and threads, its CPU time against its budget, and its ticks: the interval files, the meter and the monitor's
counters must agree, and the bins of each interval must contain its ticks. An hour takes some 140 MB in the temporary
directory. OUT is a file for the summary as JSON. Exits with 1 if a check fails.
"""
import json, os, platform, shutil, signal, subprocess, sys, tempfile, time
from pathlib import Path

sys.dont_write_bytecode = True
from long_run import counters, most, process, read_log  # noqa: E402, in this directory

HOURS = float(sys.argv[1])
OSJITTER = str(Path(sys.argv[2] if len(sys.argv) > 2 else "target/release/osjitter").resolve())
SERVICE = str(Path(sys.argv[3] if len(sys.argv) > 3 else "target/release/examples/service").resolve())
# Ticks per day of a monitor with its defaults: two probes, every 10 ms.
DAY_TICKS = 2 * 24 * 3_600 * 100
SUBJECTS = ["os-interval", "os-interval-group", "os-sleep", "nanosleep"]
PERIODS = ["1ms", "2ms", "5ms"]
INTERVAL_S, SCRAPE_S, BUDGET = 30 if HOURS > 0.1 else 10, 1, 0.6
# Memory is compared with its size at this time; a guest lives for GUEST_S.
SETTLED_S, GUEST_S = min(60, HOURS * 3_600 / 3), 20

home = Path(tempfile.mkdtemp(prefix="monitor-day-"))
environment = {**os.environ, "TICKMETER_DIR": str(home / "meters")}


def started(*command, said):
    return subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, stderr=said.open("w"))


log, said = home / "log", home / "monitor.log"
matrix = [w for s in SUBJECTS for w in ("--subject", s)] + [w for p in PERIODS for w in ("--period", p)]
monitor = started(OSJITTER, "monitor", *matrix, "--interval", f"{INTERVAL_S}s", "--log", log, "--listen", "127.0.0.1:0", "--budget",
                  f"{BUDGET:.0%}", "--limit", "max=10s", said=said)
guest_program = shutil.copy(SERVICE, home / "guest")
service, guest, guests, samples = None, None, 0, []
try:
    while "metrics: http" not in said.read_text():
        assert monitor.poll() is None, said.read_text()
        time.sleep(0.05)
    (url,) = (line.split()[1] for line in said.read_text().splitlines() if line.startswith("metrics: "))
    service = started(SERVICE, said=home / "service.log")
    began, came, shown = time.monotonic(), 0.0, 0.0
    while (past := time.monotonic() - began) < HOURS * 3_600:
        if guest is None or past - came > GUEST_S:
            if guest:
                guest.kill()
                guest.wait()
            guest, guests, came = started(guest_program, said=home / "guest.log"), guests + 1, past
        assert monitor.poll() is None, said.read_text()
        seen = counters(url)
        samples.append({"at_s": round(past, 1), "cpu_s": seen["osjitter_cpu_seconds_total"], **process(monitor.pid)})
        if past - shown > 60:
            print(f"{past:.0f} s: {samples[-1]}", file=sys.stderr)
            shown = past
        time.sleep(SCRAPE_S)
    # A stopped service keeps its meter, which still has to be read.
    service.send_signal(signal.SIGSTOP)
    time.sleep(2)
    top = subprocess.run([OSJITTER, "top", "--once", "--window", "1s", "--format", "json"], env=environment, capture_output=True, text=True, check=True)
    (booked,) = (m["total"]["ticks"] for m in json.loads(top.stdout)["meters"] if m["pid"] == service.pid)
    seen = counters(url)
    monitor.terminate()
    assert monitor.wait(60) == 0, said.read_text()
finally:
    for running in (service, guest, monitor):
        if running and running.poll() is None:
            running.kill()

ticks, unequal, intervals = read_log(log)
counted = lambda label: sum(value for name, value in seen.items() if name.startswith("osjitter_ticks_total") and label in name)
in_files = lambda keep: sum(n for loop, n in ticks.items() if keep(loop))
service_ticks = in_files(lambda loop: loop[2] == "service")
probe_ticks = in_files(lambda loop: loop[2] is None)
settled = [sample for sample in samples if sample["at_s"] >= SETTLED_S]
first, last = settled[0], settled[-1]
growth_kb = most(settled, "rss_kb") - first["rss_kb"]
cores = (last["cpu_s"] - first["cpu_s"]) / max(last["at_s"] - first["at_s"], 1e-9)
stretches = seen["osjitter_probe_stretches_total"]
checks = {
    "grew by less than 1 MB after it had settled": growth_kb < 1_024,
    "descriptors do not grow": most(settled, "descriptors") <= first["descriptors"] + 4,
    "threads do not grow": most(settled, "threads") <= first["threads"] + 4,
    "each interval's bins have its ticks": unequal == 0,
    "the files have every tick that the meter of the service booked": service_ticks == booked,
    "the counters have them, too": counted('program="service"') == booked,
    # The probes tick on between the last scrape and the end.
    "the files have every tick of the probes": 0 <= probe_ticks - counted('subject="') <= 10 * 1_000 * len(SUBJECTS) * len(PERIODS),
    "the budget was kept": cores <= BUDGET,
    "no interval was lost": seen["osjitter_intervals_lost_total"] == 0,
    "no probe ended": seen["osjitter_probes_ended_total"] == 0,
}
version = subprocess.run([OSJITTER, "--version"], capture_output=True, text=True).stdout.strip()
commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
summary = {
    "schema": "osjitter-monitor-day", "osjitter": version, "commit": commit, "kernel": platform.release(), "cpus": os.cpu_count(),
    "hours": HOURS, "probes": len(SUBJECTS) * len(PERIODS), "guests": guests, "intervals": intervals,
    "ticks": {"service": service_ticks, "probes": probe_ticks, "days at the defaults": round(probe_ticks / DAY_TICKS, 3)},
    "rss_kb": {"settled": first["rss_kb"], "largest": most(settled, "rss_kb"), "last": last["rss_kb"]},
    "descriptors": [first["descriptors"], most(settled, "descriptors")], "threads": [first["threads"], most(settled, "threads")],
    "cores": round(cores, 4), "budget": BUDGET, "stretches": stretches, "checks": checks,
}
text = json.dumps(summary, indent=2)
print(text)
if len(sys.argv) > 4:
    Path(sys.argv[4]).write_text(text + "\n")
shutil.rmtree(home)
sys.exit(0 if all(checks.values()) else 1)
