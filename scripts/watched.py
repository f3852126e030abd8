"""What the scripts have in common that watch programs for hours: what a process holds, and what a monitor counted."""

import csv
import os
import urllib.request
from collections import Counter
from pathlib import Path


def process(pid):
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    kb = lambda name: int(status[name].split()[0])
    return {"rss_kb": kb("VmRSS"), "own_kb": kb("RssAnon") + kb("RssShmem"), "threads": int(status["Threads"]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def most(samples, key):
    return max(sample[key] for sample in samples)


def counters(url):
    """Every line of a monitor's metrics, by its name with its labels."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def loop_of(row):
    """Subject or meter, period, and the program whose meter it is."""
    labels = dict(label.split("=", 1) for label in row["labels"].split(";") if label)
    return row["subject"], row["period_ns"], labels.get("program")


def read_log(log):
    """Ticks of each loop over all intervals, and how many intervals have other bins than ticks."""
    ticks, unequal, intervals = Counter(), 0, 0
    for path in sorted(log.glob("*/*.intervals.csv")):
        counts = Counter()
        for row in rows(Path(str(path).replace(".intervals.", ".bins."))):
            counts[loop_of(row)] += int(row["count"])
        for row in rows(path):
            of = loop_of(row)
            ticks[of] += int(row["ticks"])
            unequal += counts[of] != int(row["ticks"]) - int(row["skipped"])
        intervals += 1
    return ticks, unequal, intervals
