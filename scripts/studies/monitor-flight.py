#!/usr/bin/env python3
"""Stalls a monitor for known reasons, to check that its flight records name them, and measures the cost of recording.

  python3 scripts/studies/monitor-flight.py MINUTES [OSJITTER [SERVICE [OUT]]]

The monitor watches its probes and a program with a meter (the example `service` of tickmeter), all on the first CPU. At random
times, a busy thread with a higher priority takes that CPU, the monitor is stopped with SIGSTOP, or its control group has used up
its quota (if this user can create one); 40 stalls in 30 minutes, or STALLS in all. A stall is named if the flight records have a
late tick of a probe during it whose largest cause is the injected one and, for the busy thread with tier B1, if that thread is the
first one that ran instead. Then pairs of runs, with and without the recording, show whether it moves the median lateness of a
ticker. OUT is a file for the summary as JSON. Exits with 1 if a check fails.
"""
import json, math, os, random, shutil, signal, statistics, subprocess, sys, tempfile, time
from datetime import datetime
from pathlib import Path

sys.dont_write_bytecode = True
from long_run import describe_program, publish, read_counters, read_process, wait_for_line  # noqa: E402, in this directory

MINUTES = float(sys.argv[1])
OSJITTER = str(Path(sys.argv[2] if len(sys.argv) > 2 else "target/release/osjitter").resolve())
SERVICE = str(Path(sys.argv[3] if len(sys.argv) > 3 else "target/release/examples/service").resolve())
STALLS = int(os.environ.get("STALLS", max(round(MINUTES * 40 / 30), 3)))
LIMIT_MS, STALL_S, MAX_BYTES, MAX_CORES = 20, 0.08, 5_000_000, 0.005
PERIOD_US = 100_000
CPU = min(os.sched_getaffinity(0))
HOG = "stall-hog"

home = Path(tempfile.mkdtemp(prefix="monitor-flight-"))
environment = {**os.environ, "TICKMETER_DIR": str(home / "meters")}
hog_program = shutil.copy("/bin/sh", home / HOG)
drawn = random.Random(int(time.time()))


def start(*command, stderr, group=None):
    pinned = ["taskset", "-c", str(CPU), *map(str, command)]
    enter = (lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) if group else None
    return subprocess.Popen(pinned, env=environment, stdout=subprocess.DEVNULL, stderr=stderr.open("w"), preexec_fn=enter)


def make_group():
    """Creates a control group with a large quota, which is reduced during a stall."""
    for top, quota in (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max")):
        group = Path(top) / f"osjitter-flight-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / quota).exists():
            set_quota(group, PERIOD_US * 4)
            return group
        group.rmdir()
    return None


def set_quota(group, quota_us):
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))


def run_hog(*prefix):
    return subprocess.Popen([*prefix, "taskset", "-c", str(CPU), str(hog_program), "-c", "while :; do :; done"])


def contend():
    hog = run_hog("chrt", "-r", "10")
    time.sleep(STALL_S)
    hog.kill()
    hog.wait()


def stop():
    monitor.send_signal(signal.SIGSTOP)
    time.sleep(STALL_S)
    monitor.send_signal(signal.SIGCONT)


def throttle():
    hog = run_hog()
    (group / "cgroup.procs").write_text(str(hog.pid))
    set_quota(group, 1_000)
    time.sleep(2.5 * PERIOD_US / 1e6)
    set_quota(group, 4 * PERIOD_US)
    hog.kill()
    hog.wait()


def monitor_command(log, flight):
    command = [OSJITTER, "monitor", "--interval", "30s", "--log", log, "--listen", "127.0.0.1:0", "--limit", f"max={LIMIT_MS}ms", "--budget", "5%"]
    return command + (["--flight", "2s"] if flight else [])


def unix_time(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def read_late_ticks(log):
    """Returns the late ticks of all flight records, with the times between which they were late."""
    ticks = {}
    for path in sorted(log.glob("*/*.flight-*.json")):
        flight = json.loads(path.read_text())
        at = unix_time(flight["at_utc"])
        for loop in flight["rounds"]:
            for tick in loop["ticks"]:
                due = at + tick["deadline_ns"] / 1e9
                # A record may repeat ticks of the one before it.
                key = (loop["subject"], tick["tick"])
                if key not in ticks or tick["causes_ns"]:
                    ticks[key] = {"loop": loop["subject"], "due": due, "came": due + tick["lateness_ns"] / 1e9, **tick}
    return list(ticks.values())


def largest_cause(tick):
    causes = {cause: ns for cause, ns in (tick["causes_ns"] or {}).items() if ns}
    return max(causes, key=causes.get, default=None)


def is_named(stall, tick):
    if largest_cause(tick) != stall["cause"]:
        return False
    behind = sorted(tick["behind"] or [], key=lambda thread: -thread["ns"])
    return stall["cause"] != "queue" or not all_cpus or bool(behind) and behind[0]["comm"] == HOG


def describe(stall, ticks):
    """Returns the latest tick of a loop during a stall, if one was later than the limit."""
    during = [t for t in ticks if t["came"] > stall["start"] and t["due"] < stall["end"] and t["lateness_ns"] > LIMIT_MS * 1e6]
    return max(during, key=lambda tick: tick["lateness_ns"], default=None)


def median_of_run(number, flight):
    """Returns the median lateness of a ticker while a monitor runs, with or without recording."""
    monitor = start(*monitor_command(home / f"pairs-{number}", flight), stderr=home / "pairs.log")
    try:
        wait_for_line(monitor, home / "pairs.log", "metrics: http")
        out = home / f"run-{number}-{flight}"
        subprocess.run([OSJITTER, "run", "--subject", "os-interval", "--period", "1ms", "--ticks", "4000", "--quiet", "--out", str(out)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    finally:
        monitor.kill()
        monitor.wait()
    report = json.loads((out / "report.json").read_text())
    return next(s["summary"]["lateness_ns"]["p50"] for s in report["subjects"] if s["id"].startswith("os-interval"))


group = make_group()
kinds = {"queue": contend, "stopped": stop, **({"quota": throttle} if group else {})}
log, monitor_log = home / "log", home / "monitor.log"
service = start(SERVICE, stderr=home / "service.log")
monitor = start(*monitor_command(log, True), stderr=monitor_log, group=group)
stalls, samples = [], []
try:
    url = wait_for_line(monitor, monitor_log, "metrics: ").split()[1]
    scope = wait_for_line(monitor, monitor_log, "flight records: ")
    all_cpus = "all CPUs" in scope
    print(scope, file=sys.stderr)
    time.sleep(3)
    began, first = time.time(), read_counters(url)
    order = [list(kinds)[n % len(kinds)] for n in range(STALLS)]
    drawn.shuffle(order)
    for n, cause in enumerate(order):
        slot = MINUTES * 60 / STALLS
        time.sleep(max(0, began + (n + drawn.uniform(0.2, 0.8)) * slot - time.time()))
        begin = time.time()
        kinds[cause]()
        stalls.append({"cause": cause, "start": begin, "end": time.time()})
        samples.append(read_process(monitor.pid))
    time.sleep(max(0, began + MINUTES * 60 - time.time()))
    last, elapsed_s = read_counters(url), time.time() - began
    monitor.terminate()
    assert monitor.wait(60) == 0, monitor_log.read_text()
finally:
    for process in (service, monitor):
        if process.poll() is None:
            process.kill()
            process.wait()
    if group:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)

ticks = read_late_ticks(log)
probes = [tick for tick in ticks if " of " not in tick["loop"]]
metered = [tick for tick in ticks if " of " in tick["loop"]]
for stall in stalls:
    tick = describe(stall, probes)
    stall["named"] = bool(tick) and is_named(stall, tick)
    stall["found"] = tick and {"loop": tick["loop"], "lateness_ms": round(tick["lateness_ns"] / 1e6, 1), "cause": largest_cause(tick),
                               "behind": [thread["comm"] for thread in tick["behind"] or []][:3]}
    tick = describe(stall, metered) if stall["cause"] == "queue" else None
    stall["service"] = tick and is_named(stall, tick)
    if not stall["named"]:
        print(f"not named: {stall}", file=sys.stderr)
sizes = [path.stat().st_size for path in log.glob("*/*.flight-*.json")]
delta = lambda name: (last[name] - first[name]) / elapsed_s
ring_cores, monitor_cores = delta("osjitter_flight_cpu_seconds_total"), delta("osjitter_cpu_seconds_total")
pairs = []
for n in range(max(6, round(MINUTES / 2))):
    sides = [True, False]
    drawn.shuffle(sides)
    medians = {flight: median_of_run(n, flight) for flight in sides}
    pairs.append(medians[True] - medians[False])
ordered, at = sorted(pairs), 0
# The interval of the median from the order statistics, at most 5 % outside.
while 2 * sum(math.comb(len(pairs), k) for k in range(at + 1)) / 2 ** len(pairs) <= 0.05:
    at += 1
interval = [ordered[at - 1], ordered[-at]] if at else None
named = sum(stall["named"] for stall in stalls)
seen_by_service = [stall["service"] for stall in stalls if stall["service"] is not None]
checks = {
    "at least 38 of 40 stalls are named": named >= len(stalls) * 38 / 40,
    "recording costs at most 0.5 % of a core": ring_cores <= MAX_CORES,
    "each file has at most 5 MB": max(sizes, default=0) <= MAX_BYTES,
    "no difference of the median is shown": interval is None or interval[0] <= 0 <= interval[1],
    "no record was lost": last["osjitter_flights_lost_total"] == 0,
}
by_kind = {cause: [sum(s["named"] for s in stalls if s["cause"] == cause), sum(s["cause"] == cause for s in stalls)] for cause in kinds}
summary = {
    "schema": "osjitter-monitor-flight", **describe_program(OSJITTER),
    "minutes": MINUTES, "scope": scope, "stalls": len(stalls), "named": named, "by kind": by_kind,
    "named for the service": [sum(seen_by_service), len(seen_by_service)],
    "cores": {"recording": round(ring_cores, 6), "monitor": round(monitor_cores, 6)}, "memory_bytes": last["osjitter_flight_memory_bytes"],
    "files": len(sizes), "bytes": {"median": statistics.median(sizes) if sizes else None, "largest": max(sizes, default=0)},
    "rss_kb": max((sample["rss_kb"] for sample in samples), default=None),
    "p50_difference_ns": {"median": statistics.median(pairs), "ci95": interval, "pairs": len(pairs)}, "checks": checks,
    "not_named": [stall for stall in stalls if not stall["named"]],
}
publish(summary, sys.argv[4] if len(sys.argv) > 4 else None, home)
