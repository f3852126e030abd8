#!/usr/bin/env python3
"""How often the gate is wrong on this machine: real gates, many of them, with nothing changed and with known changes.

    scripts/gate-campaign.py NAME [--cpus 1,2,3] [--minutes 60]   run gates, then write results/NAME/gate-campaign.{json,md}
    scripts/gate-campaign.py NAME --table                         only write them, from the gates there are
    scripts/gate-campaign.py NAME --readme                        only the README, from results/NAME/gate-campaign.json

A lane a CPU; each lane runs one gate after the other, bound to its CPU. A gate that has ended is not run again: started
once more, the campaign goes on where it was (target/gate-campaign/NAME holds the verdict files). Nothing is left out:
the cases take turns, so that a campaign that runs out of time has all of them, and each row says how many it had.
"""

import argparse
import json
import pathlib
import queue
import shutil
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import published  # noqa: E402, beside this script

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT = [ROOT / "target/release/osjitter", ROOT / "target/release/examples/slowed-loop"]


def programs(change, *more):
    return ["--baseline-cmd", "./slowed-loop none", "--candidate-cmd", f"./slowed-loop {change}", *more]


# name -> (how many gates, what changed, the verdict that is right, arguments)
CASES = {
    "same-program": (100, "nothing, a program of the user's own", "pass", programs("none")),
    "same-subject": (100, "nothing, `os-interval` in the gate's process", "pass",
                     ["--a", "os-interval", "--b", "os-interval", "--period", "500us"]),
    "all-20-percent": (60, "every tick 20 % later", "regressed", programs("all-20-percent")),
    "plus-5us": (60, "every tick 5 us later", "regressed", programs("plus-5us")),
    "plus-5us-tolerance-10": (60, "every tick 5 us later, `--tolerance p50=10%`", "regressed",
                              programs("plus-5us", "--tolerance", "p50=10%")),
    "tail-50-percent": (60, "the last twentieth of the ticks 50 % later", "regressed", programs("tail-50-percent")),
}


def turns():
    """Every gate of the campaign, the cases in turns."""
    for number in range(max(count for count, *_ in CASES.values())):
        for case, (count, *_) in CASES.items():
            # spread the shorter cases over the whole of the campaign
            if number * count // 100 != (number + 1) * count // 100:
                yield case, number * count // 100


def lane(cpu, gates, state, end):
    while time.monotonic() < end:
        try:
            case, number = gates.get_nowait()
        except queue.Empty:
            return
        kept = state / f"{case}-{number:03}.json"
        if kept.exists():
            continue
        out = state / f"cpu{cpu}"
        shutil.rmtree(out, ignore_errors=True)
        command = ["./osjitter", "gate", "--quiet", *CASES[case][3], "--cpu", str(cpu), "--out", out]
        ended = subprocess.run(command, cwd=state, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ended.returncode not in (0, 1):
            print(f"{case} {number}: exit {ended.returncode}: {ended.stderr.strip()}", file=sys.stderr)
        if not (out / "verdict.json").exists():
            print(f"the lane of CPU {cpu} ends here; start the campaign again to go on", file=sys.stderr)
            return
        (out / "verdict.json").rename(kept)


def upper_bound(alarms, gates):
    """95 % one-sided bound of a share, Clopper and Pearson: the rate at which so few would come in 1 of 20 campaigns."""
    def at_most(rate):
        term, total = (1 - rate) ** gates, 0.0
        for k in range(alarms + 1):
            total += term
            term *= (gates - k) / (k + 1) * rate / (1 - rate) if rate < 1 else 0
        return total
    low, high = 0.0, 1.0 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(middle) > 0.05 else (low, middle)
    return high


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def write(state, directory):
    rows, host, tool, lanes = [], None, None, set()
    for file in sorted(state.glob("*-[0-9][0-9][0-9].json")):
        verdict = json.loads(file.read_text())
        host, tool = verdict["host"], verdict["tool"]
        [judged] = verdict["comparisons"]
        sides = judged["sides"]
        lanes.add(judged["plan"]["cpu"])
        rows.append({
            "case": file.stem[:-4], "commit": tool["commit"], "started_utc": verdict["started_utc"],
            "verdict": verdict["verdict"], "reason": verdict["reason"], "failure": verdict["failure"],
            "pairs": judged["pairs"], "duration_ns": verdict["duration_ns"], "cpu": judged["plan"]["cpu"],
            "seed": judged["plan"]["seed"],
            "steal_share": max((s["steal_share"] or 0.0 for s in sides), default=None),
            "same_stall_share": max((s["same_stall_share"] for s in sides), default=None),
            "metrics": [{key: m[key] for key in ("name", "verdict", "ratio", "ratio_interval", "a_ns", "b_ns")}
                        for m in judged["metrics"]],
        })
    if not rows:
        sys.exit(f"{state}: no gate has ended there yet")
    rows.sort(key=lambda row: row["started_utc"])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "gate-campaign.json").write_text(json.dumps({"host": host, "gates": rows}, indent=1) + "\n")

    lines = [
        "# What the gate said when the answer was known",
        "",
        f"{published.machine(host)}; {rows[0]['started_utc'][:16]} to {rows[-1]['started_utc'][:16]} UTC, "
        f"{len(lanes)} gates at a time, each bound to a CPU of its own, beside whatever else the machine did; osjitter "
        f"{tool['version']}, commit {', '.join(sorted({row['commit'] or 'unknown' for row in rows}))}. "
        "Period 500 us, rounds of 250 ticks. Written by `scripts/gate-campaign.py` from "
        "[`gate-campaign.json`](gate-campaign.json).",
        "",
        "| changed | gates | pass | regressed | inconclusive | could not run | A p50, median | p50 ratio, median "
        "| p99 ratio, median | seconds, median (90 %) | stalled ticks, median (90 %) |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    same = []
    for case, (_, changed, right, _) in CASES.items():
        mine = [row for row in rows if row["case"] == case]
        if not mine:
            continue
        ran = [row for row in mine if not row["failure"]]
        count = lambda *verdicts: sum(row["verdict"] in verdicts for row in ran)
        mark = lambda n, verdict: f"**{n}**" if verdict == right else str(n)
        ratio = lambda k: quantile([row["metrics"][k]["ratio"] for row in ran], 0.5)
        seconds = [row["duration_ns"] / 1e9 for row in ran]
        stalled = [100 * row["same_stall_share"] for row in ran]
        lines.append(
            f"| {changed} | {len(mine)} | {mark(count('pass', 'improved'), 'pass')} | "
            f"{mark(count('regressed'), 'regressed')} | {count('inconclusive')} | {len(mine) - len(ran)} | "
            f"{quantile([row['metrics'][0]['a_ns'] for row in ran], 0.5) / 1e3:.1f} us | {ratio(0):.3f} | {ratio(1):.3f} | "
            f"{quantile(seconds, 0.5):.0f} ({quantile(seconds, 0.9):.0f}) | "
            f"{quantile(stalled, 0.5):.1f} % ({quantile(stalled, 0.9):.1f} %) |")
        if right == "pass":
            same += ran
    alarms = sum(row["verdict"] == "regressed" for row in same)
    lines += [
        "",
        f"False alarms: {alarms} of {len(same)} gates in which nothing had changed; with 95 % confidence the rate is "
        f"below {100 * upper_bound(alarms, len(same)):.1f} %. By design it is at most 0.5 %.",
        "",
        "What should come out is bold. A tick counts as stalled if it was already due when the one before it was delivered.",
        "",
    ]
    (directory / "gate-campaign.md").write_text("\n".join(lines))
    print("\n".join(lines))
    put_into_readme(directory.name, host, rows)


def put_into_readme(name, host, rows):
    """False alarms, and how often a change was found: from the rows, never from a keyboard."""
    table = ["| Slowdown | Gates that decided | Found |", "|---|---:|---:|"]
    same = []
    for case, (_, changed, right, _) in CASES.items():
        mine = [row["verdict"] for row in rows if row["case"] == case and not row["failure"]]
        decided = [verdict for verdict in mine if verdict != "inconclusive"]
        if right == "pass":
            same += mine
        elif decided:
            table.append(f"| {changed} | {len(decided)} of {len(mine)} | {decided.count('regressed')} |")
    alarms = same.count("regressed")
    block = "\n".join([
        f"False alarms: {alarms} of {len(same)} gates with nothing changed (below {100 * upper_bound(alarms, len(same)):.1f} % "
        "with 95 % confidence; at most 0.5 % by design).",
        "", *table, "",
        f"All of it in [`results/{name}`](results/{name}/gate-campaign.md): {published.machine(host)}, "
        f"{rows[0]['started_utc'][:10]}."])
    published.put("gate campaign", block)
    published.index(name, [(f"`{name}`", "gate-campaign.md")], host, "`scripts/gate-campaign.py`")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("name", help="directory below results/")
    arguments.add_argument("--cpus", default="1", help="one lane on each of these, for example 1,2,3")
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--table", action="store_true", help="run nothing")
    arguments.add_argument("--readme", action="store_true", help="run nothing, read nothing but what is committed")
    asked = arguments.parse_args()
    if asked.readme:
        kept = json.loads((ROOT / "results" / asked.name / "gate-campaign.json").read_text())
        return put_into_readme(asked.name, kept["host"], kept["gates"])
    state = ROOT / "target/gate-campaign" / asked.name
    state.mkdir(parents=True, exist_ok=True)
    if not asked.table:
        subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "osjitter", "--example", "slowed-loop"],
                       cwd=ROOT, check=True)
        for program in BUILT:  # it ends with the programs it began with
            if not (state / program.name).exists():
                shutil.copy(program, state)
        gates = queue.SimpleQueue()
        for gate in turns():
            gates.put(gate)
        end = time.monotonic() + 60 * asked.minutes
        lanes = [threading.Thread(target=lane, args=(cpu, gates, state, end)) for cpu in asked.cpus.split(",")]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()
    write(state, ROOT / "results" / asked.name)


if __name__ == "__main__":
    main()
