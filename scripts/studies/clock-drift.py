#!/usr/bin/env python3
"""Measures how far clocks drift from the clock of the operating system over an hour, all of them at the same time.

  scripts/studies/clock-drift.py NAME [--seconds 3600]
  scripts/studies/clock-drift.py NAME --table      only write the tables of results/NAME/clock-drift.json

A clock reads the CPU counter and converts it with a rate that it has determined at its first use or corrects later. The error of
that rate shows only over long spans. The figures for a day are extrapolated. Writes results/NAME/clock-drift.json and a block of
the page on clocks.
"""
import argparse, json, pathlib, subprocess, sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
from pages import ROOT, index, machine, put, this_machine  # noqa: E402, in scripts/results
from programs import build_peer  # noqa: E402

DAY_S = 86_400


def format_error(ns):
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:+.3g} {unit}"
    return f"{ns:+.0f} ns"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    args = parser.parse_args()
    file = ROOT / "results" / args.name / "clock-drift.json"
    if not args.table:
        command = [build_peer("peers-clock"), "--drift", str(args.seconds)]
        measured = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"host": this_machine(), **measured}, indent=1) + "\n")
    drift = json.loads(file.read_text())
    host, span = drift["host"], drift["span_s"]
    # A millionth of a second is a thousand nanoseconds.
    rows = [f"| `{clock['clock']}` | {clock['ppm']:+.4f} ppm | {format_error(clock['ppm'] * 1e3 * span)} | "
            f"{format_error(clock['ppm'] * 1e3 * DAY_S)} |" for clock in drift["clocks"]]
    table = "\n".join([f"| Clock | rate | after {span / 3600:.3g} h | after a day, extrapolated |", "|---|---:|---:|---:|", *rows])
    put("clock drift", f"""{table}

Difference from the clock of the operating system, all clocks in one process. `std::time::Instant` is that clock, and shows the
resolution of the comparison. Source: [`clock-drift.json`](results/{args.name}/clock-drift.json). {machine(host)}, clock source
{drift['clock_source']}.""")
    index(args.name, [(f"`{args.name}`", "clock-drift.json")], host, "`scripts/studies/clock-drift.py`")


main()
