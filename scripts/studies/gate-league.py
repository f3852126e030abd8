#!/usr/bin/env python3
"""Compares the errors of osjitter's gate with those of the rules of other tools, on the same recorded rounds.

    scripts/studies/gate-league.py NAME --record MINUTES [--cpu 1]   add sessions to target/gate-league/NAME
    scripts/studies/gate-league.py NAME [--decisions 1000]           judge them, write results/NAME/league.{json,md} and the pages
    scripts/studies/gate-league.py NAME --kept                       the same with the sessions in results/NAME

A session alternates between `nanosleep`, `os-interval` and `tokio-interval` for a minute and a half. A pause follows, so that the
sessions are spread over the recording. The program gate-league implements the rules. Each rule gets a hundred rounds of an old
program and a hundred of a new one, in the order in which its users would have measured them, and decides whether to raise an
alarm. The changes are known, because they are added to the recorded ticks.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from programs import build_osjitter, build_study  # noqa: E402
from sessions import read_sessions, write_sessions  # noqa: E402

ROOT = pages.ROOT
SUBJECTS = ["nanosleep", "os-interval", "tokio-interval"]
ROUNDS, ROUND_TICKS = 200, 250
PAUSE_S = 15


def record(state, minutes, cpu):
    osjitter = build_osjitter()
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        out = state / f"session-{len(list(state.glob('session-*'))):02}"
        subjects = [word for subject in SUBJECTS for word in ("--subject", subject)]
        subprocess.run([osjitter, "run", "--quiet", *subjects, "--period", "500us", "--ticks",
                        str(ROUNDS * ROUND_TICKS), "--round-ticks", str(ROUND_TICKS), "--cpu", str(cpu), "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        print(f"{out.name} recorded", file=sys.stderr)
        time.sleep(max(0.0, min(PAUSE_S, end - time.monotonic())))


def judge(reports, decisions):
    command = [build_study("gate-league"), str(decisions), *reports]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def share_interval(k, n):
    """Returns the 95 % interval of a share in percent, by Wilson."""
    z, share = 1.96, k / n
    center, half_width = share + z * z / (2 * n), z * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return [100 * (center - half_width) / (1 + z * z / n), 100 * (center + half_width) / (1 + z * z / n)]


def format_table(rows, subject):
    rows = [row for row in rows if row["subject"] == subject]
    changes = list(dict.fromkeys(row["change"] for row in rows))
    lines = [f"| rule | false alarms | {' | '.join(changes[1:])} | undecided | seconds |",
             "|---|---:|" + "---:|" * (len(changes) + 1)]
    for rule in dict.fromkeys(row["rule"] for row in rows):
        by_change = {row["change"]: row for row in rows if row["rule"] == rule}
        share = lambda row, key="alarms": 100 * row[key] / row["decisions"]
        false = by_change[changes[0]]
        low, high = share_interval(false["alarms"], false["decisions"])
        found = " | ".join(f"{share(by_change[change]):.0f} %" for change in changes[1:])
        lines.append(f"| {rule} | {share(false):.1f} % ({low:.1f} to {high:.1f}) | {found} | {share(false, 'open'):.0f} % | {false['seconds']:.0f} |")
    return lines


def write_results(name, reports, rows):
    directory = ROOT / "results" / name
    contents = [json.loads(pathlib.Path(report).read_text()) for report in reports]
    host, started = contents[0]["host"], sorted(report["started_utc"] for report in contents)
    league = {"host": host, "sessions": len(reports), "from_utc": started[0], "to_utc": started[-1], "rows": rows}
    (directory / "league.json").write_text(json.dumps(league, indent=1) + "\n")
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    lines = [
        "# Rules for gates, compared on the same rounds",
        "",
        f"{pages.machine(host)}; {len(reports)} sessions, {started[0][:16]} to {started[-1][:16]} UTC; "
        f"{rows[0]['decisions']} decisions per rule and change. Written by `scripts/studies/gate-league.py` from "
        "[`league.json`](league.json); `sessions.parquet` has the rounds, which `--kept` judges again.",
        "",
        "Each column is the share of decisions that raised an alarm. For false alarms, the 95 % interval is in brackets. It assumes "
        "independent decisions, although decisions share sessions. The columns `undecided` and `seconds` are about decisions without a change. "
        "The seconds are the mean time that the rounds of a decision take; rounds of earlier runs are free.",
    ]
    for subject in subjects:
        lines += ["", f"## `{subject}`", "", *format_table(rows, subject)]
    lines += ["", "## Rules", ""]
    rules = dict.fromkeys((row["rule"], row["of"]) for row in rows)
    lines += [f"- {rule}: {source}." for rule, source in rules]
    lines.append("")
    (directory / "league.md").write_text("\n".join(lines))
    print("\n".join(lines))
    block = "\n".join([*format_table(rows, subjects[0]), "",
                       f"`{subjects[0]}`, {rows[0]['decisions']} decisions per field; the other loop and the sources of the rules are in "
                       f"[`results/{name}`](results/{name}/league.md): {pages.machine(host)}, {started[0][:10]}."])
    pages.put("gate league", block)
    put_into_readme(name, league)
    pages.index(name, [(f"`{name}`", "league.md"), ("sessions", "sessions.parquet")], host, "`scripts/studies/gate-league.py`")


def put_into_readme(name, league):
    """Puts a few rules into the README."""
    pages.put("gate league in short", format_summary(name, league["host"], league["rows"], league["from_utc"][:10]))


# The rules of the README: the most common one, the best-known test, and ours.
SUMMARY_RULES = ["stored number, 110 %", "Mann-Whitney of 10 runs, 0.05", "osjitter gate"]
# How the README names a rule, if not by the name and the source in the league's file.
NAMES_IN_README = {"stored number, 110 %": "one stored number with a 10 % margin, as pytest-benchmark does"}
# The changes of the summary, with their column heads.
SUMMARY_CHANGES = {"nothing": "False alarms", "all +2 %": "+2 % found", "all +20 %": "+20 % found"}


def format_summary(name, host, rows, day):
    """Summarizes false alarms and found changes for both loops."""
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    heads = [f"{share}, `{subject}`" for subject in subjects for share in SUMMARY_CHANGES.values()]
    lines = [f"| Rule | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for rule in SUMMARY_RULES:
        cases = {(row["subject"], row["change"]): row for row in rows if row["rule"] == rule}
        assert cases, f"unknown rule {rule}"
        share = lambda case: f"{100 * cases[case]['alarms'] / cases[case]['decisions']:.1f} %"
        cells = [share((subject, change)) for subject in subjects for change in SUMMARY_CHANGES]
        shown = NAMES_IN_README.get(rule, f"{rule} ({cases[subjects[0], 'nothing']['of']})")
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    lines += ["", f"{rows[0]['decisions']} decisions per field, [all of them](results/{name}/league.md): {pages.machine(host)}, {day}."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="directory below results/")
    parser.add_argument("--record", type=float, metavar="MINUTES", help="record sessions without judging them")
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--decisions", type=int, default=1000)
    parser.add_argument("--kept", action="store_true", help="judge the sessions in results/NAME")
    parser.add_argument("--readme", action="store_true", help="only write the README, from the committed league.json")
    args = parser.parse_args()
    if args.readme:
        return put_into_readme(args.name, json.loads((ROOT / "results" / args.name / "league.json").read_text()))
    state = ROOT / "target/gate-league" / args.name
    kept = ROOT / "results" / args.name / "sessions.parquet"
    if args.record:
        state.mkdir(parents=True, exist_ok=True)
        return record(state, args.record, args.cpu)
    if not args.kept:
        reports = [json.loads(report.read_text()) for report in sorted(state.glob("session-*/report.json"))]
        if not reports:
            sys.exit(f"cannot judge: {state} contains no session; use --record first")
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_sessions(kept, reports)
    with tempfile.TemporaryDirectory() as directory:
        reports = []
        for number, report in enumerate(read_sessions(kept)):
            reports.append(pathlib.Path(directory) / f"session-{number:02}.json")
            reports[-1].write_text(json.dumps(report))
        write_results(args.name, reports, judge(reports, args.decisions))


if __name__ == "__main__":
    main()
