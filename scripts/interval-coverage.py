#!/usr/bin/env python3
"""How often the 95 % intervals of a report cover what they are of, on rounds that were recorded here.

    scripts/interval-coverage.py NAME [--draws 2000] [REPORT...]     writes results/NAME/coverage.md, and the book's sentence

Without a report, 400 rounds of each default subject are measured at 500 us, in 7 minutes. `examples/interval-coverage` says how
a run is drawn from them, and counts.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import published  # noqa: E402, beside this script

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOW = ["drawn independently", "in succession"]


def measured(there):
    command = [ROOT / "target/release/osjitter", "run", "--quiet", "--no-progress", "--period", "500us", "--ticks", "100000",
               "--round-ticks", "250", "--out", there]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [f"{there}/report.json"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("name", help="directory below results/")
    arguments.add_argument("reports", nargs="*")
    arguments.add_argument("--draws", type=int, default=2000)
    asked = arguments.parse_args()
    build = ["cargo", "build", "--release", "--locked", "--bin", "osjitter", "--example", "interval-coverage"]
    subprocess.run(build, cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as there:
        reports = asked.reports or measured(there)
        host = json.loads(pathlib.Path(reports[0]).read_text())["host"]
        count = [ROOT / "target/release/examples/interval-coverage", str(asked.draws), *reports]
        table = subprocess.run(count, check=True, capture_output=True, text=True).stdout
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    heading, rows = rows[0], rows[2:]
    shares = {how: [[float(cell.split()[0]) for cell in column if cell != "-"]
                    for column in zip(*(row[2:] for row in rows if row[1] == how))] for how in HOW}
    middle = lambda values: sorted(values)[len(values) // 2]
    spans = {how: ", ".join(f"{name} {middle(of):.0f} % ({min(of):.0f} to {max(of):.0f})"
                            for name, of in zip(heading[2:], shares[how])) for how in HOW}
    text = (f"# What intervals cover\n\n{published.machine(host)}; {asked.draws} runs of 40 rounds each, drawn from the rounds of "
            f"one report at 500 us, whose own percentiles and cost are the truth. Written by `scripts/interval-coverage.py`.\n\n{table}")
    directory = ROOT / "results" / asked.name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "coverage.md").write_text(text)
    published.put("interval coverage", (
        f"How often a 95 % interval of 40 rounds covered the value of all 400 from which these were drawn, over "
        f"{len(rows) // 2} subjects, the median and in brackets the least and the most: rounds drawn independently, {spans[HOW[0]]}; "
        f"rounds as they came, one after the other, {spans[HOW[1]]} ([the table](results/{asked.name}/coverage.md), "
        f"{published.machine(host)})."))
    published.index(asked.name, [(f"`{asked.name}`", "coverage.md")], host, "`scripts/interval-coverage.py`")
    print(text)


if __name__ == "__main__":
    main()
