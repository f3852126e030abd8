#!/usr/bin/env python3
"""Counts how often the gate is wrong on this machine: hundreds of real gates, without a change and with known changes.

    scripts/studies/gate-campaign.py NAME [--cpus 1,2,3] [--minutes 60]   run gates, then write results/NAME/gate-campaign.{json,md}
    scripts/studies/gate-campaign.py NAME --case CASE ...                 run only the gates of these cases
    scripts/studies/gate-campaign.py NAME --table                         only write the results of gates that have ended
    scripts/studies/gate-campaign.py NAME --readme                        only the pages, from results/NAME/gate-campaign.json

Each CPU is a lane, which runs one gate after the other, bound to its CPU. Verdict files are kept in target/gate-campaign/NAME;
a campaign that is started again continues after the last of them. Cases take turns, so that a campaign that runs out of
time has gates of each, and every row states its number of gates. results/NAME/verdicts.tar.xz contains the verdicts with
every pair that was judged.

Stored sessions are added during the whole campaign, one for every fourth gate that uses them. For a subject that should be
slower than before, the stored lateness is divided, so that the same new session is judged.
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
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from programs import build_osjitter, build_study  # noqa: E402

ROOT = pages.ROOT


def programs(change, *more, loop=""):
    return ["--base-cmd", f"./slowed-loop none {loop}", "--candidate-cmd", f"./slowed-loop {change} {loop}", *more]


def twice(subject, *more):
    return ["--a", subject, "--b", subject, *more]


def wheel(change, period="500us"):
    return programs(change, "--period", period, loop=f"wheel {period}")


def work(percent):
    return ["--base-cmd", "./slowed-loop work-100", "--candidate-cmd", f"./slowed-loop work-{percent}", "--metric", "wall"]


class Stored(list):
    """A gate by stored sessions of a subject, whose stored lateness is divided by `slower`."""

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
    """Yields every gate of the campaign, cases interleaved."""
    most = max(count for count, *_ in CASES.values())
    for number in range(most):
        for case, (count, *_) in CASES.items():
            # spread the shorter cases over the whole of the campaign
            if number * count // most != (number + 1) * count // most:
                yield case, number * count // most


def stored(gate, state, cpu, number):
    """Returns the arguments of a gate by this CPU's stored sessions; every fourth gate adds one."""
    file = state / f"sessions-{gate.subject}-cpu{cpu}.json"
    sessions = len(json.loads(file.read_text())["sessions"]) if file.exists() else 0
    # What is worse than the sessions there are, or open, is not added: that is how they are kept in use.
    for _ in range(max(3 - sessions, number % 4 == 0)):
        subprocess.run(["./osjitter", "gate", "baseline", "add", file.name, "--quiet", "--subject", gate.subject, "--cpu",
                        str(cpu)], cwd=state, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not file.exists():
        return None
    baseline = json.loads(file.read_text())
    for session in baseline["sessions"]:
        for pair in session["pairs"]:
            for figures in (pair["subject"], pair["subject"]["own"]):
                for name in (name for name in figures if name[0] in "pm" and name.endswith("_ns")):
                    figures[name] = round(figures[name] / gate.slower)
    used = state / f"used-cpu{cpu}.json"
    used.write_text(json.dumps(baseline))
    return ["--baseline", used.name, *gate]


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
        arguments = CASES[case][3]
        if isinstance(arguments, Stored):
            arguments = stored(arguments, state, cpu, number)
            if arguments is None:
                print(f"{case} {number}: no session could be stored yet", file=sys.stderr)
                continue
        command = ["./osjitter", "gate", "--quiet", *arguments, "--cpu", str(cpu), "--out", out]
        ended = subprocess.run(command, cwd=state, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ended.returncode not in (0, 1):
            print(f"{case} {number}: exit {ended.returncode}: {ended.stderr.strip()}", file=sys.stderr)
        if not (out / "verdict.json").exists():
            print(f"the lane of CPU {cpu} ends here; start the campaign again to go on", file=sys.stderr)
            return
        (out / "verdict.json").rename(kept)


def upper_bound(alarms, gates):
    """Returns the one-sided 95 % bound of a share by Clopper and Pearson."""
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
        f"{pages.machine(host)}; {rows[0]['started_utc'][:16]} to {rows[-1]['started_utc'][:16]} UTC, "
        f"{len(lanes)} gates at a time, each bound to a CPU of its own, while the machine did other things; osjitter "
        f"{tool['version']}, commit {', '.join(sorted({row['commit'] or 'unknown' for row in rows}))}. "
        "Period 500 us where none is named, rounds of 250 ticks. Written by `scripts/studies/gate-campaign.py` from "
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
        values = lambda number: [value for value in map(number, ran) if value is not None]
        shown = lambda numbers, q, form: format(quantile(numbers, q), form) if numbers else "-"
        ratio = lambda k: shown(values(lambda row: row["metrics"][k]["ratio"] if k < len(row["metrics"]) else None), 0.5, ".3f")
        seconds = [row["duration_ns"] / 1e9 for row in ran]
        stalled = values(lambda row: None if row["same_stall_share"] is None else 100 * row["same_stall_share"])
        by_stalls = sum(row["reason"] == "stall-dominated" for row in ran)
        lifted = values(lambda row: 100 * (row["metrics"][1]["lift"]["both"] - 1) if row["metrics"][-1]["lift"] else None)
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
    """Puts false alarms and found changes into the pages."""
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
        f"All of it in [`results/{name}`](results/{name}/gate-campaign.md): {pages.machine(host)}, "
        f"{rows[0]['started_utc'][:10]}."])
    pages.put("gate campaign", block)
    pages.put("gate campaigns", in_short())
    pages.index(name, [(f"`{name}`", "gate-campaign.md")], host, "`scripts/studies/gate-campaign.py`")


def in_short():
    """Summarises all campaigns that used the current rule, one line each."""
    lines = ["| Campaign | Gates | False alarms | Changes found | tokio's own timers, unchanged | A gate takes |",
             "|---|---:|---:|---:|---:|---:|"]
    same, changes, tokio, every = [], [], [], 0
    for file in sorted((ROOT / "results").glob("*/gate-campaign.json")):
        rows = [row for row in json.loads(file.read_text())["gates"] if not row["failure"]]
        if not all("lift" in metric for row in rows for metric in row["metrics"]):
            continue  # an earlier rule
        verdicts = lambda right: [row["verdict"] for row in rows if CASES[row["case"]][2] == right]
        ours = [row["verdict"] for row in rows if row["case"].startswith("same-tokio")]
        stalled = [row["same_stall_share"] for row in rows if row["same_stall_share"] is not None]
        seconds = quantile([row["duration_ns"] / 1e9 for row in rows], 0.5)
        line = [f"[{file.parent.name}](results/{file.parent.name}/gate-campaign.md), {100 * quantile(stalled, 0.5):.1f} % of ticks "
                "stalled", f"{len(rows)}", f"{verdicts('pass').count('regressed')} of {len(verdicts('pass'))}",
                f"{verdicts('regressed').count('regressed')} of {len(verdicts('regressed'))}",
                f"{sum(verdict in ('pass', 'improved') for verdict in ours)} of {len(ours)} pass", f"{seconds:.0f} s"]
        lines.append(f"| {' | '.join(line)} |")
        same, changes = same + verdicts("pass"), changes + verdicts("regressed")
        tokio, every = tokio + ours, every + len(rows)
    alarms, found = same.count("regressed"), changes.count("regressed")
    return "\n".join([
        f"{every} gates with known answers: {alarms} false alarms of {len(same)} (below {100 * upper_bound(alarms, len(same)):.1f} % "
        f"with 95 % confidence), {found} of {len(changes)} changes found.", "", *lines])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="directory below results/")
    parser.add_argument("--cpus", default="1", help="one lane on each of these, for example 1,2,3")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--case", action="append", choices=CASES, help="only these cases")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--readme", action="store_true", help="run nothing, read nothing but what is committed")
    args = parser.parse_args()
    if args.readme:
        kept = json.loads((ROOT / "results" / args.name / "gate-campaign.json").read_text())
        return put_into_readme(args.name, kept["host"], kept["gates"])
    state = ROOT / "target/gate-campaign" / args.name
    state.mkdir(parents=True, exist_ok=True)
    if not args.table:
        # A campaign ends with the programs that it started with.
        for program in (build_osjitter(), build_study("slowed-loop")):
            if not (state / program.name).exists():
                shutil.copy(program, state)
        gates = queue.SimpleQueue()
        for gate in turns():
            if not args.case or gate[0] in args.case:
                gates.put(gate)
        end = time.monotonic() + 60 * args.minutes
        lanes = [threading.Thread(target=lane, args=(cpu, gates, state, end)) for cpu in args.cpus.split(",")]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()
    write(state, ROOT / "results" / args.name)


if __name__ == "__main__":
    main()
