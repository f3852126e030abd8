#!/usr/bin/env python3
"""Runs the ticks of a monitor's day in 40 minutes, to check that memory does not grow and no tick is lost.

  python3 scripts/studies/monitor-day.py HOURS [OSJITTER [SERVICE [OUT]]]

Many probes at short periods produce the ticks. A program with a meter (the example `service` of tickmeter) is watched from
beginning to end, while others start and end. The monitor serves metrics and writes its log. The study checks the memory,
descriptors and threads of the monitor, and compares its CPU time with its budget. The ticks in the interval files, the meter and
the counters of the monitor must agree, and the bins of each interval must contain its ticks. An hour needs about 140 MB in the
temporary directory. OUT is a file for the summary as JSON. Exits with 1 if a check fails.
"""
import json, os, shutil, signal, subprocess, sys, tempfile, time
from pathlib import Path

sys.dont_write_bytecode = True
from long_run import describe_program, maximum, publish, read_counters, read_log, read_process, wait_for_line  # noqa: E402

HOURS = float(sys.argv[1])
OSJITTER = str(Path(sys.argv[2] if len(sys.argv) > 2 else "target/release/osjitter").resolve())
SERVICE = str(Path(sys.argv[3] if len(sys.argv) > 3 else "target/release/examples/service").resolve())
# Ticks per day of a monitor with default settings: two probes, every 10 ms.
DAY_TICKS = 2 * 24 * 3_600 * 100
SUBJECTS = ["os-interval", "os-interval-group", "os-sleep", "nanosleep"]
PERIODS = ["1ms", "2ms", "5ms"]
INTERVAL_S, SCRAPE_S, BUDGET = 30 if HOURS > 0.1 else 10, 1, 0.6
# The baseline of the memory is taken at SETTLED_S. A guest lives for GUEST_S.
SETTLED_S, GUEST_S = min(60, HOURS * 3_600 / 3), 20

home = Path(tempfile.mkdtemp(prefix="monitor-day-"))
environment = {**os.environ, "TICKMETER_DIR": str(home / "meters")}


def start(*command, stderr):
    return subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, stderr=stderr.open("w"))


log, monitor_log = home / "log", home / "monitor.log"
matrix = [w for s in SUBJECTS for w in ("--subject", s)] + [w for p in PERIODS for w in ("--period", p)]
monitor = start(OSJITTER, "monitor", *matrix, "--interval", f"{INTERVAL_S}s", "--log", log, "--listen", "127.0.0.1:0", "--budget",
                f"{BUDGET:.0%}", "--limit", "max=10s", stderr=monitor_log)
guest_program = shutil.copy(SERVICE, home / "guest")
service, guest, guests, samples = None, None, 0, []
try:
    url = wait_for_line(monitor, monitor_log, "metrics: http").split()[1]
    service = start(SERVICE, stderr=home / "service.log")
    start_time, guest_start, last_print = time.monotonic(), 0.0, 0.0
    while (elapsed := time.monotonic() - start_time) < HOURS * 3_600:
        if guest is None or elapsed - guest_start > GUEST_S:
            if guest:
                guest.kill()
                guest.wait()
            guest, guests, guest_start = start(guest_program, stderr=home / "guest.log"), guests + 1, elapsed
        assert monitor.poll() is None, monitor_log.read_text()
        counters = read_counters(url)
        samples.append({"at_s": round(elapsed, 1), "cpu_s": counters["osjitter_cpu_seconds_total"], **read_process(monitor.pid)})
        if elapsed - last_print > 60:
            print(f"{elapsed:.0f} s: {samples[-1]}", file=sys.stderr)
            last_print = elapsed
        time.sleep(SCRAPE_S)
    # The meter of a stopped service remains and must be read once more.
    service.send_signal(signal.SIGSTOP)
    time.sleep(2)
    top = subprocess.run([OSJITTER, "top", "--once", "--window", "1s", "--format", "json"], env=environment, capture_output=True, text=True, check=True)
    (recorded,) = (m["total"]["ticks"] for m in json.loads(top.stdout)["meters"] if m["pid"] == service.pid)
    counters = read_counters(url)
    monitor.terminate()
    assert monitor.wait(60) == 0, monitor_log.read_text()
finally:
    for process in (service, guest, monitor):
        if process and process.poll() is None:
            process.kill()

ticks, unequal, intervals = read_log(log)
counted = lambda label: sum(value for name, value in counters.items() if name.startswith("osjitter_ticks_total") and label in name)
in_files = lambda condition: sum(n for loop, n in ticks.items() if condition(loop))
service_ticks = in_files(lambda loop: loop[2] == "service")
probe_ticks = in_files(lambda loop: loop[2] is None)
settled = [sample for sample in samples if sample["at_s"] >= SETTLED_S]
first, last = settled[0], settled[-1]
growth_kb = maximum(settled, "rss_kb") - first["rss_kb"]
cores = (last["cpu_s"] - first["cpu_s"]) / max(last["at_s"] - first["at_s"], 1e-9)
stretches = counters["osjitter_probe_stretches_total"]
# The names of the checks are keys of published files.
checks = {
    "grew by less than 1 MB after it had settled": growth_kb < 1_024,
    "descriptors do not grow": maximum(settled, "descriptors") <= first["descriptors"] + 4,
    "threads do not grow": maximum(settled, "threads") <= first["threads"] + 4,
    "each interval's bins have its ticks": unequal == 0,
    "the files have every tick that the meter of the service booked": service_ticks == recorded,
    "the counters have them, too": counted('program="service"') == recorded,
    # The probes continue to tick between the last scrape and the end.
    "the files have every tick of the probes": 0 <= probe_ticks - counted('subject="') <= 10 * 1_000 * len(SUBJECTS) * len(PERIODS),
    "the budget was kept": cores <= BUDGET,
    "no interval was lost": counters["osjitter_intervals_lost_total"] == 0,
    "no probe ended": counters["osjitter_probes_ended_total"] == 0,
}
summary = {
    "schema": "osjitter-monitor-day", **describe_program(OSJITTER),
    "hours": HOURS, "probes": len(SUBJECTS) * len(PERIODS), "guests": guests, "intervals": intervals,
    "ticks": {"service": service_ticks, "probes": probe_ticks, "days at the defaults": round(probe_ticks / DAY_TICKS, 3)},
    "rss_kb": {"settled": first["rss_kb"], "largest": maximum(settled, "rss_kb"), "last": last["rss_kb"]},
    "descriptors": [first["descriptors"], maximum(settled, "descriptors")], "threads": [first["threads"], maximum(settled, "threads")],
    "cores": round(cores, 4), "budget": BUDGET, "stretches": stretches, "checks": checks,
}
publish(summary, sys.argv[4] if len(sys.argv) > 4 else None, home)
