#!/usr/bin/env python3
"""Finds what periods this machine holds, for results/, and puts the answer into the README.

  scripts/find-run.py target/release/osjitter NAME    writes results/NAME
"""
import argparse, json, os, subprocess, time

from published import ROOT, index, machine, put

GOALS = ["missed=5%", "cpu=10%"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("osjitter")
    parser.add_argument("name", help="directory below results/")
    args = parser.parse_args()
    directory = ROOT / "results" / args.name
    began = time.monotonic()
    goals = [word for goal in GOALS for word in ("--goal", goal)]
    command = " ".join(["osjitter", "find", *goals])
    subprocess.run([args.osjitter, "find", *goals, "--quiet", "--out", directory], check=True, stdout=subprocess.DEVNULL)
    print(f"it took {time.monotonic() - began:.1f} s")
    found = json.loads((directory / "find.json").read_text())
    report = [args.osjitter, "report", str(directory / "find.json")]
    table = subprocess.run(report, check=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"}).stdout
    # The table, and whether to believe it; what else there is to say of a ticker is in the file.
    first, *_, last = table.split("\n\n")
    where = f"results/{args.name}"
    put("found periods", f"```text\n{first}\n\n{last.rstrip()}\n```\n\nFrom [`{where}/find.json`]({where}/find.json), which "
        f"[`find.svg`]({where}/find.svg) draws: `{command}`, {machine(found['host'])}, "
        f"{found['started_utc'][:10]}.")
    index(args.name, [(f"`{args.name}`", "find.json"), ("picture", "find.svg")], found["host"],
          f"`{command}`")


main()
