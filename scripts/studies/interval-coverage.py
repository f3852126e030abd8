#!/usr/bin/env python3
"""Counts how often the 95 % intervals of a report contain the true value, on rounds recorded on this machine.

    scripts/studies/interval-coverage.py NAME [--draws 2000] [REPORT...]

Writes results/NAME/coverage.md and a sentence of the book. Without a report, 400 rounds of each default subject are measured
at 500 us, which takes 7 minutes. The program interval-coverage draws runs from these rounds and counts.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from programs import build_osjitter, build_study  # noqa: E402

ROOT = pages.ROOT
# The ways to choose the rounds of a run, as the program names them.
METHODS = ["drawn independently", "in succession"]


def measure_report(osjitter, home):
    command = [osjitter, "run", "--quiet", "--no-progress", "--period", "500us", "--ticks", "100000",
               "--round-ticks", "250", "--out", home]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [f"{home}/report.json"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="directory below results/")
    parser.add_argument("reports", nargs="*")
    parser.add_argument("--draws", type=int, default=2000)
    args = parser.parse_args()
    counter = build_study("interval-coverage")
    with tempfile.TemporaryDirectory() as home:
        reports = args.reports or measure_report(build_osjitter(), home)
        host = json.loads(pathlib.Path(reports[0]).read_text())["host"]
        command = [counter, str(args.draws), *reports]
        table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    heading, rows = rows[0], rows[2:]
    shares = {method: [[float(cell.split()[0]) for cell in column if cell != "-"]
                       for column in zip(*(row[2:] for row in rows if row[1] == method))] for method in METHODS}
    median = lambda values: sorted(values)[len(values) // 2]
    ranges = {method: ", ".join(f"{name} {median(column):.0f} % ({min(column):.0f} to {max(column):.0f})"
                                for name, column in zip(heading[2:], shares[method])) for method in METHODS}
    text = (f"# Coverage of the intervals\n\n{pages.machine(host)}; {args.draws} runs of 40 rounds each, drawn from the rounds of "
            f"one report at 500 us, whose own percentiles and cost are the true values. Written by `scripts/studies/interval-coverage.py`.\n\n{table}")
    directory = ROOT / "results" / args.name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "coverage.md").write_text(text)
    pages.put("interval coverage", (
        f"Share of the 95 % intervals of 40 rounds that contained the value of all 400 rounds from which the 40 were drawn, as the median "
        f"over {len(rows) // 2} subjects, with the range in brackets. Rounds drawn independently: {ranges[METHODS[0]]}. "
        f"Successive rounds: {ranges[METHODS[1]]} ([the table](results/{args.name}/coverage.md), "
        f"{pages.machine(host)})."))
    pages.index(args.name, [(f"`{args.name}`", "coverage.md")], host, "`scripts/studies/interval-coverage.py`")
    print(text)


if __name__ == "__main__":
    main()
