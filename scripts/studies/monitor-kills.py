#!/usr/bin/env python3
"""Kills monitors with SIGKILL at the ends of their intervals, to check that they never leave a truncated file.

  python3 scripts/studies/monitor-kills.py KILLS [OSJITTER [OUT]]

Half of the kills happen at a random moment around the end of an interval, the others up to 2 ms after its first file appears.
After each kill, no file may be truncated, every interval that had ended must be complete, counts must agree with bins, and
osjitter must be able to read the directory. OUT is a file for the summary as JSON.
"""
import concurrent.futures, csv, io, json, os, platform, random, shutil, subprocess, sys, tempfile, time
from collections import Counter
from pathlib import Path

KILLS = int(sys.argv[1])
OSJITTER = str(Path(sys.argv[2] if len(sys.argv) > 2 else "target/debug/osjitter").resolve())
SEED, JOBS = 1, 4
# Two probes, and a limit that every interval exceeds, so that an interval has three files.
COMMAND = ["monitor", "--subject", "nanosleep", "--subject", "os-interval", "--period", "1ms", "--budget", "400%", "--no-meters",
           "--interval", "1s", "--limit", "max=1ns", "--duration", "5m"]
KEY = ("host", "subject", "period_ns", "runtime", "labels", "start", "duration_ns", "run_id")


def list_files(log):
    return [entry.path for day in os.scandir(log) if day.is_dir() for entry in os.scandir(day)]


def complete_intervals(log):
    return [Path(path) for path in list_files(log) if path.endswith(".bins.csv")]


def kill_near_end(generator, process, log, n):
    """Kills the monitor near the end of an interval. Returns the number of intervals that had certainly ended, and the method."""
    while not complete_intervals(log):
        assert process.poll() is None, "the monitor has ended"
        time.sleep(0.005)
    # The kill happens at the end of the next interval, because files of this one may still be incomplete.
    time.sleep(max(0.0, 0.2 - time.time() % 1))
    ended, now = len(complete_intervals(log)), time.time()
    end = now // 1 + 1
    if n % 2 == 0:
        time.sleep(max(0.0, end + generator.uniform(-0.005, 0.060) - time.time()))
        process.kill()
        return ended, "around the end"
    known = set(list_files(log))
    while set(list_files(log)) <= known and time.time() < end + 30:
        pass
    time.sleep(generator.uniform(0, 0.002))
    process.kill()
    return ended, "while it writes"


def read_rows(path):
    text = path.read_text()
    assert text.endswith("\n"), f"{path.name} is truncated"
    header, *rows = csv.reader(io.StringIO(text))
    assert all(len(row) == len(header) for row in rows), f"{path.name} has rows of different lengths"
    return [dict(zip(header, row)) for row in rows]


def check(log):
    """Checks every file of a log and returns counts."""
    found = Counter()
    stems = {}
    for path in map(Path, list_files(log)):
        if path.name.startswith("."):
            # This is a temporary file, which readers ignore.
            found["unfinished, without a name"] += 1
            continue
        host, stamp, *ending = path.name.split(".", 2)
        stems.setdefault(stamp, {})[ending[0]] = path
    for files in stems.values():
        if "breaches.json" in files:
            assert json.loads(files["breaches.json"].read_text())["breaches"], files
        intervals = read_rows(files["intervals.csv"]) if "intervals.csv" in files else []
        if "bins.csv" not in files:
            # An interval is complete if its last file exists.
            found["intervals not yet complete"] += 1
            continue
        assert set(files) == {"breaches.json", "intervals.csv", "bins.csv"}, files
        counts = Counter()
        for row in read_rows(files["bins.csv"]):
            counts[tuple(row[key] for key in KEY)] += int(row["count"])
        assert len(intervals) == 2, intervals
        for row in intervals:
            came = int(row["ticks"]) - int(row["skipped"])
            assert counts.pop(tuple(row[key] for key in KEY)) == came > 0, row
        assert not counts, counts
        found["intervals"] += 1
    report = subprocess.run([OSJITTER, "report", log, "--format", "bins"], capture_output=True, text=True)
    assert report.returncode == 0 and "nanosleep" in report.stdout, report.stderr
    return found


def run_once(n):
    """Runs a monitor, kills it, and checks its files."""
    generator = random.Random(SEED * 1_000_003 + n)
    log = Path(tempfile.mkdtemp(prefix="monitor-kills-"))
    with tempfile.TemporaryDirectory() as meters, open(log / "stderr", "w") as stderr:
        process = subprocess.Popen([OSJITTER, *COMMAND, "--log", log], stderr=stderr, env={**os.environ, "TICKMETER_DIR": meters})
        try:
            ended, method = kill_near_end(generator, process, log, n)
        finally:
            process.kill()
            process.wait()
    (log / "stderr").unlink()
    found = check(log)
    assert found["intervals"] >= ended, f"{log}: {ended} intervals had ended, but only {found['intervals']} are complete"
    shutil.rmtree(log)
    found["kills " + method] += 1
    found["intervals that had surely ended"] += ended
    return found


start = time.monotonic()
total = Counter()
with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
    for done, found in enumerate(pool.map(run_once, range(KILLS)), 1):
        total += found
        print(f"\r{done} of {KILLS} kills", end="", file=sys.stderr)
print(file=sys.stderr)
version = subprocess.run([OSJITTER, "--version"], capture_output=True, text=True).stdout.strip()
summary = {"schema": "osjitter-monitor-kills", "osjitter": version, "kernel": platform.release(), "seed": SEED,
           "kills": KILLS, **dict(sorted(total.items())), "seconds": round(time.monotonic() - start)}
text = json.dumps(summary, indent=2)
print(text)
if len(sys.argv) > 3:
    Path(sys.argv[3]).write_text(text + "\n")
