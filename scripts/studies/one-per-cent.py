#!/usr/bin/env python3
"""Counts which changes of a function of 400 ns are found in one process and in separate processes.

    scripts/studies/one-per-cent.py NAME [--unchanged 200] [--changed 20] [--processes 10]

Writes results/NAME/one-per-cent.{json,md} and a table of the book. The function hashes 400 bytes; a change of 1 % is four bytes
more. All comparisons tolerate 0.5 %. In one process, `gate::calls` of jitterstat compares the two and ends after 10 s. In separate
processes, `osjitter gate --metric` compares the time of a call that each process measures for 25 ms. `--processes 0` omits those.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from programs import build_osjitter, build_study  # noqa: E402

ROOT = pages.ROOT
TOLERANCE = 0.005
BYTES = 400
# Bytes of the candidate for each change.
CHANGES = {"unchanged": 400, "+1 %": 404, "+2 %": 408, "+5 %": 420}
PROCESS_MS = 25
MAX_PROCESS_TIME = "60s"
ONE_PROCESS, TWO_PROCESSES = "one process", "two processes"


def compare_in_process(program, count, seed):
    output = subprocess.run([program, "compare", str(TOLERANCE), str(seed), str(count)], check=True, capture_output=True, text=True)
    return json.loads(output.stdout)


def compare_copies(program, work):
    """Compares a function with copies of itself that the compiler placed at other addresses."""
    output = subprocess.run([program, "copies", work, str(TOLERANCE), "1"], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in output.stdout.splitlines()]


def run_gate(osjitter, *arguments):
    """Runs a gate of one metric and returns its row, like the program of the study."""
    with tempfile.TemporaryDirectory() as home:
        command = [osjitter, "gate", "--quiet", "--out", home, *map(str, arguments)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode not in (0, 1):
            sys.exit(f"{command}: {run.stderr}")
        runs = json.loads((pathlib.Path(home) / "verdict.json").read_text())["runs"]
    metric = runs["metrics"][0]
    return {"outcome": {"improved": "pass (improved)"}.get(metric["verdict"], metric["verdict"]), "ratio": metric["ratio"],
            "interval": metric["ratio_interval"], "pairs": runs["pairs"], "base_ns": metric["a"], "seconds": runs["duration_ns"] / 1e9}


def compare_processes(osjitter, program, count, seed):
    command = lambda number: f"'{program}' process {number} {PROCESS_MS}"
    return run_gate(osjitter, "--base-cmd", command(BYTES), "--candidate-cmd", command(count), "--metric", "call",
                    "--tolerance", f"call={100 * TOLERANCE}%", "--floor", "0s", "--max-time", MAX_PROCESS_TIME, "--seed", seed)


def measure(args, program, osjitter):
    """Returns the rows of each way and change. The ways take turns, so that they share the hour."""
    rows = {way: {change: [] for change in CHANGES} for way in (ONE_PROCESS, TWO_PROCESSES)}
    # The changes first: they take less time.
    for change, count in reversed(CHANGES.items()):
        runs = args.unchanged if change == "unchanged" else args.changed
        for seed in range(1, runs + 1):
            rows[ONE_PROCESS][change].append(compare_in_process(program, count, seed))
            if seed <= args.processes:
                rows[TWO_PROCESSES][change].append(compare_processes(osjitter, program, count, seed))
        print(f"{change} measured", file=sys.stderr)
    return rows if args.processes else {ONE_PROCESS: rows[ONE_PROCESS]}


def count_outcomes(rows, outcome):
    return sum(row["outcome"] == outcome for row in rows)


def format_range(values):
    lower, upper = (f"{round(end, 1) or 0.0:+.1f}" for end in (min(values), max(values)))
    return f"{lower} to {upper} %"


def format_table(rows):
    heads = [f"{change} found" for change in list(CHANGES)[1:]]
    lines = [f"| Comparison | False alarms | Undecided | {' | '.join(heads)} | Interval | Time | Maximum |", "|---|" + "---:|" * (len(heads) + 5)]
    for way in rows:
        unchanged, changed = rows[way]["unchanged"], [rows[way][change] for change in list(CHANGES)[1:]]
        everything = [row for change in rows[way].values() for row in change]
        half = statistics.median(50 * (row["interval"][1] - row["interval"][0]) for row in everything if row["interval"])
        cells = [f"{count_outcomes(unchanged, 'regressed')} of {len(unchanged)}",
                 f"{count_outcomes(everything, 'inconclusive')} of {len(everything)}",
                 *(f"{count_outcomes(some, 'regressed')} of {len(some)}" for some in changed),
                 f"±{half:.2f} %", f"{statistics.median(row['seconds'] for row in everything):.1f} s",
                 f"{max(row['seconds'] for row in everything):.1f} s"]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return lines


def describe_copies(copies):
    changes = {work: [100 * (row["ratio"] - 1) for row in rows[1:]] for work, rows in copies.items()}
    times = {work: rows[0]["base_ns"] for work, rows in copies.items()}
    return (f"Seven copies of a function against the first, which differ only by their address and one constant: {format_range(changes['hash'])} "
            f"for a chain of multiplications ({times['hash']:.0f} ns), {format_range(changes['scan'])} for a scanner with branches "
            f"({times['scan']:.0f} ns).")


def write_results(name, rows, copies, load):
    host = pages.this_machine()
    directory = ROOT / "results" / name
    directory.mkdir(parents=True, exist_ok=True)
    content = {"host": host, "tolerance": TOLERANCE, "load_average": load, "rows": rows, "copies": copies}
    (directory / "one-per-cent.json").write_text(json.dumps(content, indent=1) + "\n")
    table, sentence = format_table(rows), describe_copies(copies)
    shown_load = f"load average {load[0]:.1f} before and {load[1]:.1f} after"
    text = ["# Changes of one per cent", "", f"{pages.machine(host)}; {shown_load}. Written by `scripts/studies/one-per-cent.py`.", "",
            "A function that hashes 400 bytes, against itself and against 4, 8 and 20 bytes more; tolerated 0.5 %. The interval "
            "is half of its width at the look that decided, the time is that until the verdict; both are medians over all comparisons.", "",
            *table, "", sentence, ""]
    (directory / "one-per-cent.md").write_text("\n".join(text))
    pages.put("one per cent", "\n".join([*table, "", sentence, "",
                                         f"All comparisons are in [`results/{name}`](results/{name}/one-per-cent.md): "
                                         f"{pages.machine(host)}, {shown_load}."]))
    pages.index(name, [(f"`{name}`", "one-per-cent.md")], host, "`scripts/studies/one-per-cent.py`")
    print("\n".join(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="directory below results/")
    parser.add_argument("--unchanged", type=int, default=200, help="comparisons in one process without a change")
    parser.add_argument("--changed", type=int, default=20, help="comparisons of each change in one process")
    parser.add_argument("--processes", type=int, default=10, help="comparisons of processes for each change")
    parser.add_argument("--osjitter", help="the program, if it is built already")
    args = parser.parse_args()
    program = build_study("one-per-cent")
    osjitter = args.osjitter or (build_osjitter() if args.processes else None)
    before = os.getloadavg()[0]
    rows = measure(args, program, osjitter)
    copies = {work: compare_copies(program, work) for work in ("hash", "scan")}
    write_results(args.name, rows, copies, [before, os.getloadavg()[0]])


if __name__ == "__main__":
    main()
