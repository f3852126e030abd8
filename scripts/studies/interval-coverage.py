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
HOW = ["drawn independently", "in succession"]


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
        count = [counter, str(args.draws), *reports]
        table = subprocess.run(count, check=True, capture_output=True, text=True).stdout
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    heading, rows = rows[0], rows[2:]
    shares = {how: [[float(cell.split()[0]) for cell in column if cell != "-"]
                    for column in zip(*(row[2:] for row in rows if row[1] == how))] for how in HOW}
    middle = lambda values: sorted(values)[len(values) // 2]
    spans = {how: ", ".join(f"{name} {middle(column):.0f} % ({min(column):.0f} to {max(column):.0f})"
                            for name, column in zip(heading[2:], shares[how])) for how in HOW}
    text = (f"# What intervals cover\n\n{pages.machine(host)}; {args.draws} runs of 40 rounds each, drawn from the rounds of "
            f"one report at 500 us, whose own percentiles and cost are the truth. Written by `scripts/studies/interval-coverage.py`.\n\n{table}")
    directory = ROOT / "results" / args.name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "coverage.md").write_text(text)
    pages.put("interval coverage", (
        f"How often a 95 % interval of 40 rounds covered the value of all 400 from which these were drawn, over "
        f"{len(rows) // 2} subjects, the median and in brackets the least and the most: rounds drawn independently, {spans[HOW[0]]}; "
        f"rounds as they came, one after the other, {spans[HOW[1]]} ([the table](results/{args.name}/coverage.md), "
        f"{pages.machine(host)})."))
    pages.index(args.name, [(f"`{args.name}`", "coverage.md")], host, "`scripts/studies/interval-coverage.py`")
    print(text)


if __name__ == "__main__":
    main()
