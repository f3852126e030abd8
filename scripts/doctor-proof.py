#!/usr/bin/env python3
"""Proves this machine for results/, and puts the proof into the README; then proves it with a handicap injected, to see
whether `osjitter doctor --prove` finds it: a timer slack of 10 ms, a busy neighbour on CPU 0, a real-time one there, a CPU
quota of 20 %.

  scripts/doctor-proof.py target/release/osjitter NAME    writes results/NAME

Needs root for the quota and the real-time class, and two CPUs. What the machine was like is in each file, under "fitness".
"""
import argparse, json, os, pathlib, subprocess, sys

from handicaps import hogs, quota, timer_slack
from published import ROOT, index, machine, put

SECONDS = 60


def prove(osjitter, file, *more, enter=None, seconds=SECONDS):
    command = [osjitter, "doctor", "--prove", "--quiet", "--max-time", f"{seconds}s", "--format", "json", "--out", file, *more]
    if subprocess.run(command, preexec_fn=enter).returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed")
    return json.loads(pathlib.Path(file).read_text())


def shown(checkup, key):
    """What a proof of one subject shows of a setting: number, ratio, interval."""
    rows = checkup["proof"]["subjects"][0]["rows"]
    outcome = next(row["outcome"] for row in rows if row["key"] == key)
    if outcome["state"] != "measured":
        return outcome["state"]
    changes = {name: c for name, c in outcome["differences"].items() if c and c["shown"] in ("less", "more")}
    return {name: [c["shown"], c["ratio"], c["ratio_interval"]] for name, c in changes.items()} or "no difference shown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("osjitter")
    parser.add_argument("name", help="directory below results/")
    args = parser.parse_args()
    directory = ROOT / "results" / args.name
    directory.mkdir(parents=True, exist_ok=True)
    of = lambda what: directory / f"{what}.json"

    plain = prove(args.osjitter, of("doctor"), seconds=90)
    slack = prove(args.osjitter, of("doctor-slack"), "--subject", "tokio-interval", enter=lambda: timer_slack(10_000_000))
    with hogs(1, cpu=0):
        busy = prove(args.osjitter, of("doctor-busy"), "--subject", "os-interval")
    with hogs(1, cpu=0, real_time=True):
        preempted = prove(args.osjitter, of("doctor-real-time"), "--subject", "os-interval")
    with quota(0.2) as enter:
        throttled = prove(args.osjitter, of("doctor-quota"), "--subject", "os-interval", enter=enter)
    item = next(item for item in throttled["items"] if item["key"] == "quota")
    found = {
        "no handicap: nothing, once more": shown(plain, "again"),
        "timer slack of 10 ms: timer slack 1 ns": shown(slack, "slack"),
        "timer slack of 10 ms: nothing, once more": shown(slack, "again"),
        "busy neighbour on CPU 0: CPU 0 alone": shown(busy, "cpu-0"),
        "busy neighbour on CPU 0: CPU 1 alone": shown(busy, "cpu-1"),
        "busy neighbour on CPU 0: nothing, once more": shown(busy, "again"),
        "real-time neighbour on CPU 0: CPU 0 alone": shown(preempted, "cpu-0"),
        "real-time neighbour on CPU 0: CPU 1 alone": shown(preempted, "cpu-1"),
        "real-time neighbour on CPU 0: nothing, once more": shown(preempted, "again"),
        "quota of 20 %: the line of the doctor": [item["weight"], item["value"]],
        "quota of 20 %: reasons of the fitness": [r["cause"] for r in throttled["proof"]["fitness"]["reasons"]],
        "quota of 20 %: nothing, once more": shown(throttled, "again"),
        "load average while it ran": os.getloadavg(),
    }
    (directory / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))

    report = [args.osjitter, "report", str(of("doctor"))]
    table = subprocess.run(report, check=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"}).stdout
    # Of two subjects the first, and what is said of both.
    first, *_, both = table[table.index("os-interval each"):].split("\n\n")
    proof = f"{first}\n\n{both}"
    where = f"results/{args.name}"
    put("doctor proof", f"```text\n{proof.rstrip()}\n```\n\nFrom [`{where}/doctor.json`]({where}/doctor.json): "
        f"{machine(plain['host'])}, {plain['started_utc'][:10]}. What it finds "
        f"where a handicap is injected: [`found.json`]({where}/found.json).")
    index(args.name, [(f"`{args.name}`", "doctor.json"), ("found", "found.json")], plain["host"], "`scripts/doctor-proof.py`")


main()
