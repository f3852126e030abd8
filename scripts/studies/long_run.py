"""Reads the state of programs that run for hours: the memory and descriptors of a process, the metrics and log of a monitor."""

import csv
import os
import urllib.request
from collections import Counter
from pathlib import Path


def read_process(pid):
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    kb = lambda name: int(status[name].split()[0])
    return {"rss_kb": kb("VmRSS"), "own_kb": kb("RssAnon") + kb("RssShmem"), "threads": int(status["Threads"]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def maximum(samples, key):
    return max(sample[key] for sample in samples)


def read_counters(url):
    """Reads the metrics of a monitor; the keys are names with labels."""
    with urllib.request.urlopen(url, timeout=10) as response:
        lines = [line for line in response.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def read_rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def loop_key(row):
    """Returns the subject or meter, its period, and the program of a meter."""
    labels = dict(label.split("=", 1) for label in row["labels"].split(";") if label)
    return row["subject"], row["period_ns"], labels.get("program")


def read_log(log):
    """Returns the ticks of each loop, the number of rows whose bins disagree, and the number of intervals."""
    ticks, unequal, intervals = Counter(), 0, 0
    for path in sorted(log.glob("*/*.intervals.csv")):
        counts = Counter()
        for row in read_rows(Path(str(path).replace(".intervals.", ".bins."))):
            counts[loop_key(row)] += int(row["count"])
        for row in read_rows(path):
            loop = loop_key(row)
            ticks[loop] += int(row["ticks"])
            unequal += counts[loop] != int(row["ticks"]) - int(row["skipped"])
        intervals += 1
    return ticks, unequal, intervals
