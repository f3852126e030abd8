#!/usr/bin/env python3
"""How often the gate is wrong on this machine: real gates, many of them, with nothing changed and with known changes.

    scripts/gate-campaign.py NAME [--cpus 1,2,3] [--minutes 60]   run gates, then write results/NAME/gate-campaign.{json,md}
    scripts/gate-campaign.py NAME --case CASE ...            run only the gates of these cases
    scripts/gate-campaign.py NAME --table                         only write them, from the gates there are
    scripts/gate-campaign.py NAME --readme                        only the README, from results/NAME/gate-campaign.json

A lane a CPU; each lane runs one gate after the other, bound to its CPU. A gate that has ended is not run again: started
once more, the campaign goes on where it was (target/gate-campaign/NAME holds the verdict files). Nothing is left out:
the cases take turns, so that a campaign that runs out of time has all of them, and each row says how many it had. The
verdicts themselves, which hold every pair that was judged, are kept in results/NAME/verdicts.tar.xz.

Stored sessions are added over the whole of the campaign, one for every fourth gate by them; where the subject is to be
slower than it was, the stored figures are divided, and so the same new session is judged.
"""

import argparse
import json
import pathlib
import queue
import shutil
import subprocess
import sys
import tarfile
import threading
import time

sys.dont_write_bytecode = True
import published  # noqa: E402, beside this script

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT = [ROOT / "target/release/osjitter", ROOT / "target/release/examples/slowed-loop"]


def programs(change, *more, loop=""):
    return ["--baseline-cmd", f"./slowed-loop none {loop}", "--candidate-cmd", f"./slowed-loop {change} {loop}", *more]


def twice(subject, *more):
    return ["--a", subject, "--b", subject, *more]


def wheel(change, period="500us"):
    return programs(change, "--period", period, loop=f"wheel {period}")


def work(percent):
    return ["--baseline-cmd", "./slowed-loop work-100", "--candidate-cmd", f"./slowed-loop work-{percent}", "--metric", "wall"]


class Stored(list):
    """A gate by stored sessions of a subject, which were so many times less late than they were measured."""

    def __init__(self, subject, slower=1.0):
        super().__init__(["--subject", subject])
        self.subject, self.slower = subject, slower


# name -> (how many gates, what changed, the verdict that is right, arguments)
CASES = {
    "same-program": (40, "nothing, a program of the user's own", "pass", programs("none")),
    "same-wheel-program": (40, "nothing, a program on tokio's wheel", "pass", wheel("none")),
    "same-subject": (60, "nothing, `os-interval` in the gate's process", "pass", twice("os-interval")),
    "same-tokio-interval": (60, "nothing, `tokio-interval`", "pass", twice("tokio-interval")),
    "same-tokio-skip": (40, "nothing, `tokio-interval-skip`", "pass", twice("tokio-interval-skip")),
    "same-tokio-sleep": (40, "nothing, `tokio-sleep-reused`, two threads", "pass",
                         twice("tokio-sleep-reused", "--runtime", "multi-thread:2")),
    "duet-os-interval": (40, "nothing, `os-interval`, both at once", "pass", twice("os-interval", "--duet")),
    "duet-tokio-interval": (40, "nothing, `tokio-interval`, both at once", "pass", twice("tokio-interval", "--duet")),
    "stored-os-interval": (30, "nothing, `os-interval` by stored sessions", "pass", Stored("os-interval")),
    "same-wall": (40, "nothing, wall time of 50 ms of work", "pass", work(100)),
    "all-20-percent": (40, "every tick 20 % later", "regressed", programs("all-20-percent")),
    "plus-5us": (40, "every tick 5 us later", "regressed", programs("plus-5us")),
    "plus-5us-tolerance-10": (40, "every tick 5 us later, `--tolerance p50=10%`", "regressed",
                              programs("plus-5us", "--tolerance", "p50=10%")),
    "tail-50-percent": (40, "the last twentieth of the ticks 50 % later", "regressed", programs("tail-50-percent")),
    "wheel-all-20-percent": (40, "on the wheel at 2 ms, every tick 20 % later", "regressed",
                             wheel("all-20-percent", "2ms")),
    "wheel-tail-100-percent": (40, "on the wheel at 2 ms, the last twentieth twice as late", "regressed",
                               wheel("tail-100-percent", "2ms")),
    "wheel-plus-500us": (40, "on the wheel at 2 ms, every tick 500 us later", "regressed", wheel("plus-500us", "2ms")),
    "wheel-handler-1ms": (40, "on the wheel, 1 ms of work after each tick", "regressed", wheel("handler-1ms")),
    "wall-10-percent": (40, "50 ms of work take 10 % more wall time", "regressed", work(110)),
    "stored-20-percent": (30, "`os-interval` 20 % later than its stored sessions", "regressed",
                          Stored("os-interval", 1.2)),
}


def turns():
    """Every gate of the campaign, the cases in turns."""
    most = max(count for count, *_ in CASES.values())
    for number in range(most):
        for case, (count, *_) in CASES.items():
            # spread the shorter cases over the whole of the campaign
            if number * count // most != (number + 1) * count // most:
                yield case, number * count // most


def stored(of, state, cpu, number):
    """The arguments of a gate by stored sessions: of this CPU, to which one is added with every fourth gate."""
    file = state / f"sessions-{of.subject}-cpu{cpu}.json"
    sessions = len(json.loads(file.read_text())["sessions"]) if file.exists() else 0
    # What is worse than the sessions there are, or open, is not added: that is how they are kept in use.
    for _ in range(max(3 - sessions, number % 4 == 0)):
        subprocess.run(["./osjitter", "gate", "baseline", "add", file.name, "--quiet", "--subject", of.subject, "--cpu",
                        str(cpu)], cwd=state, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not file.exists():
        return None
    baseline = json.loads(file.read_text())
    for session in baseline["sessions"]:
        for pair in session["pairs"]:
            for figures in (pair["subject"], pair["subject"]["own"]):
                for name in (name for name in figures if name[0] in "pm" and name.endswith("_ns")):
                    figures[name] = round(figures[name] / of.slower)
    used = state / f"used-cpu{cpu}.json"
    used.write_text(json.dumps(baseline))
    return ["--baseline", used.name, *of]


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
        asked = CASES[case][3]
        if isinstance(asked, Stored):
            asked = stored(asked, state, cpu, number)
            if asked is None:
                print(f"{case} {number}: no session could be stored yet", file=sys.stderr)
                continue
        command = ["./osjitter", "gate", "--quiet", *asked, "--cpu", str(cpu), "--out", out]
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
        [judged] = verdict["comparisons"] or [verdict["baseline"] or verdict["runs"]]
        sides, plan = judged.get("sides", []), judged.get("plan", judged)
        lanes.add(plan["cpu"])
        rows.append({
            "case": file.stem[:-4], "commit": tool["commit"], "started_utc": verdict["started_utc"],
            "verdict": verdict["verdict"], "reason": verdict["reason"], "failure": verdict["failure"],
            "pairs": judged["pairs"], "duration_ns": verdict["duration_ns"], "cpu": plan["cpu"],
            "seed": plan["seed"],
            "steal_share": max((s["steal_share"] or 0.0 for s in sides), default=None),
            "same_stall_share": max((s["same_stall_share"] for s in sides), default=None),
            "looks_taken": judged.get("looks_taken", 1),
            "metrics": [{key: m.get(key) for key in ("name", "verdict", "reason", "ratio", "ratio_interval", "lift")}
                        | {"a_ns": m.get("a_ns", m.get("stored_ns", m.get("a"))),
                           "b_ns": m.get("b_ns", m.get("now_ns", m.get("b")))}
                        for m in judged["metrics"]],
        })
    if not rows:
        sys.exit(f"{state}: no gate has ended there yet")
    rows.sort(key=lambda row: row["started_utc"])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "gate-campaign.json").write_text(json.dumps({"host": host, "gates": rows}, indent=1) + "\n")
    with tarfile.open(directory / "verdicts.tar.xz", "w:xz") as kept:
        for file in sorted(state.glob("*-[0-9][0-9][0-9].json")):
            kept.add(file, file.name)

    lines = [
        "# What the gate said when the answer was known",
        "",
        f"{published.machine(host)}; {rows[0]['started_utc'][:16]} to {rows[-1]['started_utc'][:16]} UTC, "
        f"{len(lanes)} gates at a time, each bound to a CPU of its own, beside whatever else the machine did; osjitter "
        f"{tool['version']}, commit {', '.join(sorted({row['commit'] or 'unknown' for row in rows}))}. "
        "Period 500 us where none is named, rounds of 250 ticks. Written by `scripts/gate-campaign.py` from "
        "[`gate-campaign.json`](gate-campaign.json).",
        "",
        "| changed | gates | pass | regressed | inconclusive (by stalls) | could not run | A p50, median | p50 ratio, median "
        "| p99 ratio, median | seconds, median (90 %) | stalled ticks, median (90 %) | p99 lifted by, median (90 %) |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    same = []
    for case, (_, changed, right, _) in CASES.items():
        mine = [row for row in rows if row["case"] == case]
        ran = [row for row in mine if not row["failure"]]
        if not ran:
            continue
        count = lambda *verdicts: sum(row["verdict"] in verdicts for row in ran)
        mark = lambda n, verdict: f"**{n}**" if verdict == right else str(n)
        # wall time is one number, of which nothing is a stall
        of = lambda number: [value for value in map(number, ran) if value is not None]
        shown = lambda values, q, form: format(quantile(values, q), form) if values else "-"
        ratio = lambda k: shown(of(lambda row: row["metrics"][k]["ratio"] if k < len(row["metrics"]) else None), 0.5, ".3f")
        seconds = [row["duration_ns"] / 1e9 for row in ran]
        stalled = of(lambda row: None if row["same_stall_share"] is None else 100 * row["same_stall_share"])
        by_stalls = sum(row["reason"] == "stall-dominated" for row in ran)
        lifted = of(lambda row: 100 * (row["metrics"][1]["lift"]["both"] - 1) if row["metrics"][-1]["lift"] else None)
        lines.append(
            f"| {changed} | {len(mine)} | {mark(count('pass', 'improved'), 'pass')} | "
            f"{mark(count('regressed'), 'regressed')} | {count('inconclusive')} ({by_stalls}) | {len(mine) - len(ran)} | "
            f"{quantile([row['metrics'][0]['a_ns'] for row in ran], 0.5) / 1e3:.1f} us | {ratio(0)} | {ratio(1)} | "
            f"{quantile(seconds, 0.5):.0f} ({quantile(seconds, 0.9):.0f}) | "
            f"{shown(stalled, 0.5, '.1f')} % ({shown(stalled, 0.9, '.1f')} %) | "
            f"{shown(lifted, 0.5, '.1f')} % ({shown(lifted, 0.9, '.1f')} %) |")
        if right == "pass":
            same += ran
    alarms = sum(row["verdict"] == "regressed" for row in same)
    lines += [
        "",
        f"False alarms: {alarms} of {len(same)} gates in which nothing had changed; with 95 % confidence the rate is "
        f"below {100 * upper_bound(alarms, len(same)):.1f} %. By design it is at most 0.5 %.",
        "",
        "What should come out is bold. A tick counts as stalled if it belongs to a stall that its first tick stands for; a "
        "percentile is lifted by what stalls make it larger on both sides of a pair.",
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
    published.put("gate campaigns", in_short())
    published.index(name, [(f"`{name}`", "gate-campaign.md")], host, "`scripts/gate-campaign.py`")


def in_short():
    """All campaigns by the rule of today, a line each."""
    lines = ["| Campaign | Gates | False alarms | Changes found | tokio's own timers, unchanged | A gate takes |",
             "|---|---:|---:|---:|---:|---:|"]
    same, changes, tokio, every = [], [], [], 0
    for file in sorted((ROOT / "results").glob("*/gate-campaign.json")):
        rows = [row for row in json.loads(file.read_text())["gates"] if not row["failure"]]
        if not all("lift" in metric for row in rows for metric in row["metrics"]):
            continue  # by an earlier rule
        of = lambda right: [row["verdict"] for row in rows if CASES[row["case"]][2] == right]
        ours = [row["verdict"] for row in rows if row["case"].startswith("same-tokio")]
        stalled = [row["same_stall_share"] for row in rows if row["same_stall_share"] is not None]
        seconds = quantile([row["duration_ns"] / 1e9 for row in rows], 0.5)
        line = [f"[{file.parent.name}](results/{file.parent.name}/gate-campaign.md), {100 * quantile(stalled, 0.5):.1f} % of ticks "
                "stalled", f"{len(rows)}", f"{of('pass').count('regressed')} of {len(of('pass'))}",
                f"{of('regressed').count('regressed')} of {len(of('regressed'))}",
                f"{sum(verdict in ('pass', 'improved') for verdict in ours)} of {len(ours)} pass", f"{seconds:.0f} s"]
        lines.append(f"| {' | '.join(line)} |")
        same, changes, tokio, every = same + of("pass"), changes + of("regressed"), tokio + ours, every + len(rows)
    alarms, found = same.count("regressed"), changes.count("regressed")
    return "\n".join([
        f"{every} gates with known answers: {alarms} false alarms of {len(same)} (below {100 * upper_bound(alarms, len(same)):.1f} % "
        f"with 95 % confidence), {found} of {len(changes)} changes found.", "", *lines])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("name", help="directory below results/")
    arguments.add_argument("--cpus", default="1", help="one lane on each of these, for example 1,2,3")
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--case", action="append", choices=CASES, help="only these cases")
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
            if not asked.case or gate[0] in asked.case:
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
