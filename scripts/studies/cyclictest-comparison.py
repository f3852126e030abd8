#!/usr/bin/env python3
"""Compares the control `nanosleep` with cyclictest, to validate the lateness that osjitter reports.

    scripts/studies/cyclictest-comparison.py NAME [--turns 20] [--loops 4000] [--cpu 1]

Writes results/NAME/cyclictest.{json,md} and a sentence of the book. Needs rt-tests, root and two CPUs.

In each turn, all tools run in random order on the same CPU, with the same period and priority: SCHED_FIFO 2, which
cyclictest chooses when it keeps a histogram; such threads have no timer slack. A tool's percentile is the median over its
turns, and the interval of the ratio comes from paired differences of turns. The tools agree if that interval contains 1
within half of cyclictest's step.

By default cyclictest binds its main thread to the measured CPU. That thread wakes a hundred times per second, which on some
machines makes the measured wake-ups earlier. The comparison therefore moves the main thread to another CPU; a third row
shows the default.

cyclictest counts whole microseconds, rounded down, so half a microsecond is added to each of its percentiles.
"""

import argparse
import functools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from programs import build_osjitter  # noqa: E402

ROOT = pages.ROOT
PERIOD_US = 500
# A key of the published file: cyclictest with its main thread on the measured CPU.
SAME_CPU = "its main thread beside"
QUANTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}


def histogram_percentiles(counts):
    """Returns nearest-rank percentiles in nanoseconds; `counts` maps microseconds to counts."""
    total, percentiles = sum(counts.values()), {}
    for name, q in QUANTILES.items():
        cumulative, rank = 0, max(1, -(-int(q * total * 1_000) // 1_000))
        for us in sorted(counts):
            cumulative += counts[us]
            if cumulative >= rank:
                percentiles[name] = us * 1_000 + 500
                break
    return percentiles


def run_cyclictest(args, directory, main_cpu=None):
    """Returns the percentiles of a run; `main_cpu` is the CPU of the main thread."""
    out = pathlib.Path(directory) / "cyclictest.json"
    command = ["cyclictest", "--quiet", "--threads", "1", "--affinity", str(args.cpu), "--interval", str(PERIOD_US), "--loops",
               str(args.loops), "--priority", "2", "--histogram", "20000", "--default-system", f"--json={out}"]
    command += [] if main_cpu is None else [f"--mainaffinity={main_cpu}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    thread = json.loads(out.read_text())["thread"]["0"]
    return histogram_percentiles({int(us): n for us, n in thread["histogram"].items()}), None


def run_osjitter(args, directory):
    """Returns the percentiles of a run and the host of its report."""
    out = pathlib.Path(directory) / "run"
    command = [ROOT / "target/release/osjitter", "run", "--quiet", "--no-progress", "--subject", "nanosleep", "--period", f"{PERIOD_US}us",
               "--ticks", str(args.loops), "--cpu", str(args.cpu), "--sched", "fifo:2", "--out", out]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    report = json.loads((out / "report.json").read_text())
    lateness = sorted(ns for round in report["subjects"][0]["rounds"] for ns in round["lateness_ns"])
    percentile = lambda q: lateness[max(0, -(-int(q * len(lateness) * 1_000) // 1_000) - 1)]
    return {name: percentile(q) for name, q in QUANTILES.items()}, report["host"]


def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def sign_interval(values):
    """Returns the 95 % interval of the median by the sign test: a pair of order statistics."""
    values, n, term, total, k = sorted(values), len(values), 0.5 ** len(values), 0.0, 0
    while total + term <= 0.025:
        total += term
        k += 1
        term *= (n - k + 1) / k
    return None if k == 0 else [values[k - 1], values[n - k]]


def publish(name, result):
    """Writes the sentence of the book."""
    rows = result["percentiles"]
    ratios = ", ".join(f"{row['ratio']:.3f} [{row['ratio_interval95'][0]:.3f}, {row['ratio_interval95'][1]:.3f}] at {q}" for q, row in rows.items())
    pages.put("cyclictest", (
        f"  The control's lateness over cyclictest's, {len(result['turns'])} turns, with 95 % intervals: {ratios} "
        f"([the table](results/{name}/cyclictest.md), {pages.machine(result['host'])}). cyclictest's main thread is on another CPU. "
        f"On the measured CPU, which is its default, its wake-ups make the others earlier: "
        f"{rows['p50'][SAME_CPU] / 1e3:.1f} us instead of {rows['p50']['cyclictest'] / 1e3:.1f} us at p50."))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="directory below results/")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--loops", type=int, default=4000)
    parser.add_argument("--cpu", type=int, default=1)
    args = parser.parse_args()
    other_cpu = min(os.sched_getaffinity(0) - {args.cpu}, default=None)
    if other_cpu is None:
        sys.exit("cannot measure on one CPU: cyclictest's main thread needs a second one")
    build_osjitter()
    turns, host = [], None
    for _ in range(args.turns):
        tools = [("cyclictest", functools.partial(run_cyclictest, main_cpu=other_cpu)), (SAME_CPU, run_cyclictest),
                 ("nanosleep", run_osjitter)]
        random.shuffle(tools)
        turn = {}
        with tempfile.TemporaryDirectory() as directory:
            for name, run in tools:
                turn[name], reported_host = run(args, directory)
                host = reported_host or host
        turns.append(turn)
        print(turn, file=sys.stderr)
    version = subprocess.run(["cyclictest", "--help"], capture_output=True, text=True).stdout.splitlines()[0]
    rows = {}
    for name in QUANTILES:
        ratios = [turn["nanosleep"][name] / turn["cyclictest"][name] for turn in turns]
        rows[name] = {tool: median([turn[tool][name] for turn in turns]) for tool in ("cyclictest", SAME_CPU, "nanosleep")}
        rows[name] |= {"ratio": median(ratios), "ratio_interval95": sign_interval(ratios)}
    directory = ROOT / "results" / args.name
    directory.mkdir(parents=True, exist_ok=True)
    result = {"host": host, "cyclictest": version, "period_ns": PERIOD_US * 1_000, "loops": args.loops, "percentiles": rows, "turns": turns}
    (directory / "cyclictest.json").write_text(json.dumps(result, indent=1) + "\n")
    lines = ["# The control and cyclictest", "",
             f"{pages.machine(host)}; {version}, {args.turns} turns of {args.loops} ticks each at {PERIOD_US} us. Written by "
             "`scripts/studies/cyclictest-comparison.py` from [`cyclictest.json`](cyclictest.json).", "",
             "| | cyclictest | `nanosleep` | ratio, 95 % | cyclictest with its main thread on the same CPU |",
             "|---|---:|---:|---:|---:|"]
    for name, row in rows.items():
        low, high = row["ratio_interval95"] or [float("nan")] * 2
        lines.append(f"| {name} | {row['cyclictest'] / 1e3:.1f} us | {row['nanosleep'] / 1e3:.1f} us | {row['ratio']:.3f} "
                     f"({low:.3f} to {high:.3f}) | {row[SAME_CPU] / 1e3:.1f} us |")
    lines.append("")
    (directory / "cyclictest.md").write_text("\n".join(lines))
    print("\n".join(lines))
    publish(args.name, result)
    pages.index(args.name, [(f"`{args.name}`", "cyclictest.md")], host, "`scripts/studies/cyclictest-comparison.py`")


if __name__ == "__main__":
    main()
