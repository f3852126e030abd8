#!/usr/bin/env python3
"""Two tools on one machine: cyclictest, and the control that does what it does (`nanosleep`), in turns.

    scripts/beside-cyclictest.py NAME [--turns 20] [--loops 4000] [--cpu 1]     writes results/NAME/cyclictest.{json,md}

Each turn is a run of all, in random order, bound to the same CPU, at the same period and priority (SCHED_FIFO 2, which
cyclictest takes by itself when it keeps a histogram; such threads have no timer slack). A tool's percentile is the median over
its turns; the interval of their ratio is of the turns' paired differences. They agree where that interval holds 1, within half
of cyclictest's step. Needs rt-tests and root.

By itself cyclictest binds its main thread, which wakes a hundred times a second, to the CPU that it measures. On some machines
that makes the measured wake-ups earlier, those of any program beside such a thread. Compared with is cyclictest with its main
thread on another CPU; as it is by itself stands beside it.

cyclictest keeps a histogram in whole microseconds, rounded down, so that its percentiles are known to 1 us; half of one is
added to each.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import published  # noqa: E402, beside this script

ROOT = pathlib.Path(__file__).resolve().parent.parent
PERIOD_US = 500
QUANTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}


def of_histogram(counts):
    """Percentiles of {microseconds: count}, in nanoseconds, by nearest rank."""
    total, found = sum(counts.values()), {}
    for name, q in QUANTILES.items():
        seen, rank = 0, max(1, -(-int(q * total * 1_000) // 1_000))
        for us in sorted(counts):
            seen += counts[us]
            if seen >= rank:
                found[name] = us * 1_000 + 500
                break
    return found


def cyclictest(asked, there, main=None):
    out = pathlib.Path(there) / "cyclictest.json"
    command = ["cyclictest", "--quiet", "--threads", "1", "--affinity", str(asked.cpu), "--interval", str(PERIOD_US), "--loops",
               str(asked.loops), "--priority", "2", "--histogram", "20000", "--default-system", f"--json={out}"]
    command += [] if main is None else [f"--mainaffinity={main}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    thread = json.loads(out.read_text())["thread"]["0"]
    return of_histogram({int(us): n for us, n in thread["histogram"].items()}), None


def osjitter(asked, there):
    out = pathlib.Path(there) / "run"
    command = [ROOT / "target/release/osjitter", "run", "--quiet", "--no-progress", "--subject", "nanosleep", "--period", f"{PERIOD_US}us",
               "--ticks", str(asked.loops), "--cpu", str(asked.cpu), "--sched", "fifo:2", "--out", out]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    report = json.loads((out / "report.json").read_text())
    lateness = sorted(ns for round in report["subjects"][0]["rounds"] for ns in round["lateness_ns"])
    at = lambda q: lateness[max(0, -(-int(q * len(lateness) * 1_000) // 1_000) - 1)]
    return {name: at(q) for name, q in QUANTILES.items()}, report["host"]


def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def sign_interval(values):
    """95 % interval of the median: the order statistics that the sign test leaves."""
    values, n, term, total, k = sorted(values), len(values), 0.5 ** len(values), 0.0, 0
    while total + term <= 0.025:
        total += term
        k += 1
        term *= (n - k + 1) / k
    return None if k == 0 else [values[k - 1], values[n - k]]


def publish(name, kept):
    """The sentence of the book."""
    rows = kept["percentiles"]
    ratios = ", ".join(f"{row['ratio']:.3f} [{row['ratio_interval95'][0]:.3f}, {row['ratio_interval95'][1]:.3f}] at {q}" for q, row in rows.items())
    published.put("beside cyclictest", (
        f"  The control's lateness over cyclictest's, {len(kept['turns'])} turns, with 95 % intervals: {ratios} "
        f"([the table](results/{name}/cyclictest.md), {published.machine(kept['host'])}). cyclictest's main thread is on another CPU: "
        f"where it is by itself, on the measured one, its wake-ups make the others earlier, "
        f"{rows['p50']['its main thread beside'] / 1e3:.1f} us instead of {rows['p50']['cyclictest'] / 1e3:.1f} us at p50."))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("name", help="directory below results/")
    arguments.add_argument("--turns", type=int, default=20)
    arguments.add_argument("--loops", type=int, default=4000)
    arguments.add_argument("--cpu", type=int, default=1)
    asked = arguments.parse_args()
    elsewhere = min(os.sched_getaffinity(0) - {asked.cpu}, default=None)
    if elsewhere is None:
        sys.exit("it takes a second CPU, for cyclictest's main thread")
    subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "osjitter"], cwd=ROOT, check=True)
    turns, host = [], None
    for _ in range(asked.turns):
        tools = [("cyclictest", lambda *of: cyclictest(*of, main=elsewhere)), ("its main thread beside", cyclictest),
                 ("nanosleep", osjitter)]
        random.shuffle(tools)
        turn = {}
        with tempfile.TemporaryDirectory() as there:
            for name, run in tools:
                turn[name], seen = run(asked, there)
                host = seen or host
        turns.append(turn)
        print(turn, file=sys.stderr)
    version = subprocess.run(["cyclictest", "--help"], capture_output=True, text=True).stdout.splitlines()[0]
    rows = {}
    for name in QUANTILES:
        ratios = [turn["nanosleep"][name] / turn["cyclictest"][name] for turn in turns]
        rows[name] = {tool: median([turn[tool][name] for turn in turns]) for tool in ("cyclictest", "its main thread beside", "nanosleep")}
        rows[name] |= {"ratio": median(ratios), "ratio_interval95": sign_interval(ratios)}
    directory = ROOT / "results" / asked.name
    directory.mkdir(parents=True, exist_ok=True)
    kept = {"host": host, "cyclictest": version, "period_ns": PERIOD_US * 1_000, "loops": asked.loops, "percentiles": rows, "turns": turns}
    (directory / "cyclictest.json").write_text(json.dumps(kept, indent=1) + "\n")
    lines = ["# Beside cyclictest", "",
             f"{published.machine(host)}; {version}, {asked.turns} turns of {asked.loops} ticks each at {PERIOD_US} us. Written by "
             "`scripts/beside-cyclictest.py` from [`cyclictest.json`](cyclictest.json).", "",
             "| | cyclictest | `nanosleep` | ratio, 95 % | cyclictest with its main thread on the same CPU |",
             "|---|---:|---:|---:|---:|"]
    for name, row in rows.items():
        low, high = row["ratio_interval95"] or [float("nan")] * 2
        lines.append(f"| {name} | {row['cyclictest'] / 1e3:.1f} us | {row['nanosleep'] / 1e3:.1f} us | {row['ratio']:.3f} "
                     f"({low:.3f} to {high:.3f}) | {row['its main thread beside'] / 1e3:.1f} us |")
    lines.append("")
    (directory / "cyclictest.md").write_text("\n".join(lines))
    print("\n".join(lines))
    publish(asked.name, kept)
    published.index(asked.name, [(f"`{asked.name}`", "cyclictest.md")], host, "`scripts/beside-cyclictest.py`")


if __name__ == "__main__":
    main()
