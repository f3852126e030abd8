#!/usr/bin/env python3
"""The rules by which people gate performance, each on the same recorded rounds of this machine: how often each is wrong.

    scripts/gate-league.py NAME --record MINUTES [--cpu 1]   record sessions, more each time (target/gate-league/NAME)
    scripts/gate-league.py NAME [--decisions 1000]           judge them, write results/NAME/league.{json,md} and the README
    scripts/gate-league.py NAME --kept                       the same, from the sessions kept in results/NAME

A session is a minute and a half of `nanosleep`, `os-interval` and `tokio-interval` in turns; a pause follows, so that the
sessions are spread over the time there is. examples/gate-league has the rules: each gets a hundred rounds of an old program
and a hundred of a new one, in the order in which its users would have measured them, and says whether it alarms. What
changed is known, because it is put into the recorded ticks.
"""

import argparse
import array
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

sys.dont_write_bytecode = True
import published  # noqa: E402, beside this script

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUBJECTS = ["nanosleep", "os-interval", "tokio-interval"]
# What rounds have beside their lateness.
NOT_JUDGED = ["until_unpark_ns", "summary"]
ROUNDS, ROUND_TICKS = 200, 250
PAUSE_S = 15


def record(state, minutes, cpu):
    subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "osjitter"], cwd=ROOT, check=True)
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        out = state / f"session-{len(list(state.glob('session-*'))):02}"
        subjects = [word for subject in SUBJECTS for word in ("--subject", subject)]
        subprocess.run([ROOT / "target/release/osjitter", "run", "--quiet", *subjects, "--period", "500us", "--ticks",
                        str(ROUNDS * ROUND_TICKS), "--round-ticks", str(ROUND_TICKS), "--cpu", str(cpu), "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        print(f"{out.name} recorded", file=sys.stderr)
        time.sleep(max(0.0, min(PAUSE_S, end - time.monotonic())))


def judge(reports, decisions):
    command = ["cargo", "run", "--release", "--locked", "--example", "gate-league", "--", str(decisions), *reports]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def pack(report):
    """A session as it is kept: its report without what is not judged, and its lateness apart, by the bytes' places, which packs
    better."""
    report = json.loads(pathlib.Path(report).read_text())
    values = array.array("i")
    for r in (r for subject in report["subjects"] for r in subject["rounds"]):
        values.extend(r["lateness_ns"])
        r["lateness_ns"] = len(r["lateness_ns"])
        for other in NOT_JUDGED:
            r.pop(other, None)
    if sys.byteorder == "big":
        values.byteswap()
    flat = values.tobytes()
    return json.dumps(report, separators=(",", ":")).encode(), b"".join(flat[place::4] for place in range(4))


def unpack(text, planes):
    report, values, n = json.loads(text), array.array("i"), len(planes) // 4
    values.frombytes(bytes(planes[place * n + i] for i in range(n) for place in range(4)))
    if sys.byteorder == "big":
        values.byteswap()
    at = 0
    for r in (r for subject in report["subjects"] for r in subject["rounds"]):
        at, r["lateness_ns"] = at + r["lateness_ns"], values[at:at + r["lateness_ns"]].tolist()
    return json.dumps(report)


def interval(k, n):
    """95 % interval of a share, Wilson's."""
    z, share = 1.96, k / n
    middle, by = share + z * z / (2 * n), z * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return [100 * (middle - by) / (1 + z * z / n), 100 * (middle + by) / (1 + z * z / n)]


def table(rows, subject):
    mine = [row for row in rows if row["subject"] == subject]
    changes = list(dict.fromkeys(row["change"] for row in mine))
    lines = [f"| rule | false alarms | {' | '.join(changes[1:])} | cannot say |", "|---|---:|" + "---:|" * len(changes)]
    for rule in dict.fromkeys(row["rule"] for row in mine):
        of = {row["change"]: row for row in mine if row["rule"] == rule}
        share = lambda row, key="alarms": 100 * row[key] / row["decisions"]
        false = of[changes[0]]
        low, high = interval(false["alarms"], false["decisions"])
        found = " | ".join(f"{share(of[change]):.0f} %" for change in changes[1:])
        lines.append(f"| {rule} | {share(false):.1f} % ({low:.1f} to {high:.1f}) | {found} | {share(false, 'open'):.0f} % |")
    return lines


def write(name, reports, rows):
    directory = ROOT / "results" / name
    first = [json.loads(pathlib.Path(report).read_text()) for report in reports]
    host, started = first[0]["host"], sorted(report["started_utc"] for report in first)
    kept = {"host": host, "sessions": len(reports), "from_utc": started[0], "to_utc": started[-1], "rows": rows}
    (directory / "league.json").write_text(json.dumps(kept, indent=1) + "\n")
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    lines = [
        "# The rules by which people gate, on the same rounds",
        "",
        f"{published.machine(host)}; {len(reports)} sessions, {started[0][:16]} to {started[-1][:16]} UTC; "
        f"{rows[0]['decisions']} decisions a rule and change. Written by `scripts/gate-league.py` from "
        "[`league.json`](league.json); `sessions.tar.xz` has the rounds, which `--kept` judges again.",
        "",
        "Each column is the share of decisions that were an alarm; of false alarms with the 95 % interval of as many "
        "independent decisions, which these are not quite: they come from so many sessions. `cannot say` is of decisions with "
        "nothing changed.",
    ]
    for subject in subjects:
        lines += ["", f"## `{subject}`", "", *table(rows, subject)]
    lines += ["", "## What each rule is", ""]
    of = dict.fromkeys((row["rule"], row["of"]) for row in rows)
    lines += [f"- {rule}: {what}." for rule, what in of]
    lines.append("")
    (directory / "league.md").write_text("\n".join(lines))
    print("\n".join(lines))
    block = "\n".join([*table(rows, subjects[0]), "",
                       f"`{subjects[0]}`, {rows[0]['decisions']} decisions a field; the other loop and what each rule is in "
                       f"[`results/{name}`](results/{name}/league.md): {published.machine(host)}, {started[0][:10]}."])
    published.put("gate league", block)
    published.put("gate league in short", in_short(name, host, rows, started[0][:10]))
    published.index(name, [(f"`{name}`", "league.md"), ("sessions", "sessions.tar.xz")], host, "`scripts/gate-league.py`")


# Of each kind the one that does best or is used most.
IN_SHORT = ["stored number, 110 %", "stored number, 150 %", "stored number, 200 %", "t-test, 0.99", "interquartile range, 1.5",
            "bootstrap of the mean", "disjoint intervals of 5 runs", "Mann-Whitney of 10 runs, 0.05", "osjitter gate",
            "osjitter gate --baseline"]


def in_short(name, host, rows, day):
    """False alarms, and a change of 20 % found, for both loops."""
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    heads = [f"{what}, `{subject}`" for subject in subjects for what in ("False alarms", "+20 % found")]
    lines = [f"| Rule | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for rule in IN_SHORT:
        of = {(row["subject"], row["change"]): row for row in rows if row["rule"] == rule}
        assert of, f"there is no rule {rule}"
        share = lambda subject, change: f"{100 * of[subject, change]['alarms'] / of[subject, change]['decisions']:.1f} %"
        cells = [share(subject, change) for subject in subjects for change in ("nothing", "all +20 %")]
        lines.append(f"| {rule} ({of[subjects[0], 'nothing']['of']}) | {' | '.join(cells)} |")
    lines += ["", f"{rows[0]['decisions']} decisions a field, [all of them](results/{name}/league.md): {published.machine(host)}, {day}."]
    return "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("name", help="directory below results/")
    arguments.add_argument("--record", type=float, metavar="MINUTES", help="record sessions, judge nothing")
    arguments.add_argument("--cpu", type=int, default=1)
    arguments.add_argument("--decisions", type=int, default=1000)
    arguments.add_argument("--kept", action="store_true", help="judge the sessions in results/NAME")
    asked = arguments.parse_args()
    state = ROOT / "target/gate-league" / asked.name
    kept = ROOT / "results" / asked.name / "sessions.tar.xz"
    if asked.record:
        state.mkdir(parents=True, exist_ok=True)
        return record(state, asked.record, asked.cpu)
    if asked.kept:
        with tempfile.TemporaryDirectory() as there, tarfile.open(kept) as sessions:
            sessions.extractall(there, filter="data")
            reports = sorted(pathlib.Path(there).glob("*.json"))
            for report in reports:
                report.write_text(unpack(report.read_bytes(), report.with_suffix(".ns").read_bytes()))
            return write(asked.name, reports, judge(reports, asked.decisions))
    reports = sorted(map(str, state.glob("session-*/report.json")))
    if not reports:
        sys.exit(f"{state}: no session there; --record some first")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(kept, "w:xz") as sessions:
        for report in reports:
            for suffix, content in zip((".json", ".ns"), pack(report)):
                entry = tarfile.TarInfo(pathlib.Path(report).parent.name + suffix)
                entry.size = len(content)
                sessions.addfile(entry, io.BytesIO(content))
    write(asked.name, reports, judge(reports, asked.decisions))


if __name__ == "__main__":
    main()
