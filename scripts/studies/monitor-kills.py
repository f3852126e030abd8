#!/usr/bin/env python3
"""Kills monitors with SIGKILL at the ends of their intervals, to check that no file is ever cut off.

  python3 scripts/studies/monitor-kills.py KILLS [OSJITTER [OUT]]

Half of the kills happen at a random moment around the end of an interval, the others as soon as its first file appears, or up
to 2 ms later. After each kill, every file must be whole, every interval that had ended must be complete, counts must agree
with bins, and osjitter must be able to read the directory. OUT is a file for the summary as JSON.
"""
import concurrent.futures, csv, io, json, os, platform, random, shutil, subprocess, sys, tempfile, time
from collections import Counter
from pathlib import Path

KILLS = int(sys.argv[1])
OSJITTER = str(Path(sys.argv[2] if len(sys.argv) > 2 else "target/debug/osjitter").resolve())
SEED, AT_ONCE = 1, 4
# Two probes, and a limit that every interval breaks: three files an interval.
COMMAND = ["monitor", "--subject", "nanosleep", "--subject", "os-interval", "--period", "1ms", "--budget", "400%", "--no-meters",
           "--interval", "1s", "--limit", "max=1ns", "--duration", "5m"]
KEY = ("host", "subject", "period_ns", "runtime", "labels", "start", "duration_ns", "run_id")


def entries(log):
    return [entry.path for day in os.scandir(log) if day.is_dir() for entry in os.scandir(day)]


def closed(log):
    return [Path(path) for path in entries(log) if path.endswith(".bins.csv")]


def kill_at(draw, process, log, n):
    """Kills the monitor near the end of an interval; returns how many intervals had certainly ended."""
    while not closed(log):
        assert process.poll() is None, "it has ended by itself"
        time.sleep(0.005)
    # The end of the next one; a file of this one may still be on its way.
    time.sleep(max(0.0, 0.2 - time.time() % 1))
    surely, now = len(closed(log)), time.time()
    end = now // 1 + 1
    if n % 2 == 0:
        time.sleep(max(0.0, end + draw.uniform(-0.005, 0.060) - time.time()))
        process.kill()
        return surely, "around the end"
    known = set(entries(log))
    while set(entries(log)) <= known and time.time() < end + 30:
        pass
    time.sleep(draw.uniform(0, 0.002))
    process.kill()
    return surely, "while it writes"


def rows(path):
    text = path.read_text()
    assert text.endswith("\n"), f"{path.name} is cut off"
    read = list(csv.reader(io.StringIO(text)))
    assert all(len(row) == len(read[0]) for row in read), f"{path.name} has rows of several lengths"
    return [dict(zip(read[0], row)) for row in read[1:]]


def check(log):
    """Checks every file of a log and returns counts."""
    found = Counter()
    stems = {}
    for path in map(Path, entries(log)):
        if path.name.startswith("."):
            # A temporary file, which no reader looks at.
            found["unfinished, without a name"] += 1
            continue
        host, stamp, *ending = path.name.split(".", 2)
        stems.setdefault(stamp, {})[ending[0]] = path
    for files in stems.values():
        if "breaches.json" in files:
            assert json.loads(files["breaches.json"].read_text())["breaches"], files
        intervals = rows(files["intervals.csv"]) if "intervals.csv" in files else []
        if "bins.csv" not in files:
            # The last file makes it an interval.
            found["intervals not yet complete"] += 1
            continue
        assert set(files) == {"breaches.json", "intervals.csv", "bins.csv"}, files
        counts = Counter()
        for row in rows(files["bins.csv"]):
            counts[tuple(row[key] for key in KEY)] += int(row["count"])
        assert len(intervals) == 2, intervals
        for row in intervals:
            came = int(row["ticks"]) - int(row["skipped"])
            assert counts.pop(tuple(row[key] for key in KEY)) == came > 0, row
        assert not counts, counts
        found["intervals"] += 1
    read = subprocess.run([OSJITTER, "report", log, "--format", "bins"], capture_output=True, text=True)
    assert read.returncode == 0 and "nanosleep" in read.stdout, read.stderr
    return found


def one(n):
    draw = random.Random(SEED * 1_000_003 + n)
    log = Path(tempfile.mkdtemp(prefix="monitor-kills-"))
    with tempfile.TemporaryDirectory() as meters, open(log / "said", "w") as said:
        process = subprocess.Popen([OSJITTER, *COMMAND, "--log", log], stderr=said, env={**os.environ, "TICKMETER_DIR": meters})
        try:
            surely, how = kill_at(draw, process, log, n)
        finally:
            process.kill()
            process.wait()
    (log / "said").unlink()
    found = check(log)
    assert found["intervals"] >= surely, f"{log}: {surely} intervals had ended, {found['intervals']} are there"
    shutil.rmtree(log)
    found["kills " + how] += 1
    found["intervals that had surely ended"] += surely
    return found


began = time.monotonic()
total = Counter()
with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
    for done, found in enumerate(pool.map(one, range(KILLS)), 1):
        total += found
        print(f"\r{done} of {KILLS} kills", end="", file=sys.stderr)
print(file=sys.stderr)
version = subprocess.run([OSJITTER, "--version"], capture_output=True, text=True).stdout.strip()
summary = {"schema": "osjitter-monitor-kills", "osjitter": version, "kernel": platform.release(), "seed": SEED,
           "kills": KILLS, **dict(sorted(total.items())), "seconds": round(time.monotonic() - began)}
text = json.dumps(summary, indent=2)
print(text)
if len(sys.argv) > 3:
    Path(sys.argv[3]).write_text(text + "\n")
