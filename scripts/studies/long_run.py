"""Reads the state of programs that run for hours: the memory and descriptors of a process, the metrics and log of a monitor.
Publishes the result of a study of them."""

import csv
import json
import os
import platform
import shutil
import subprocess
import sys
import time
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


def wait_for_line(process, log, text):
    """Waits until a program has written a line with a text, and returns the line."""
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    return next(line for line in log.read_text().splitlines() if text in line)


def describe_program(osjitter):
    """Returns the version of a program, and of the machine that runs it."""
    run = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return {"osjitter": run(osjitter, "--version"), "commit": run("git", "rev-parse", "--short", "HEAD"), "kernel": platform.release(),
            "cpus": os.cpu_count()}


def publish(summary, path, home):
    """Prints a summary, writes it to a file if there is a path, and removes the directory of the study. Exits with 1 if a check failed."""
    text = json.dumps(summary, indent=2)
    print(text)
    if path:
        Path(path).write_text(text + "\n")
    shutil.rmtree(home)
    sys.exit(0 if all(summary["checks"].values()) else 1)


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
