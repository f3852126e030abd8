#!/usr/bin/env python3
"""Counts the wrong verdicts of hundreds of real gates on this machine, without a change and with known changes.

    scripts/studies/gate-campaign.py NAME [--cpus 1,2,3] [--minutes 60]   run gates, then write results/NAME/gate-campaign.{json,md}
    scripts/studies/gate-campaign.py NAME --case CASE ...                 run only the gates of these cases
    scripts/studies/gate-campaign.py NAME --table                         only write the results of gates that have ended
    scripts/studies/gate-campaign.py NAME --readme                        only write the pages, from results/NAME/gate-campaign.json.gz

Each CPU is a lane, which runs one gate after the other, bound to its CPU. Verdict files are kept in target/gate-campaign/NAME,
and a campaign that is started again continues after the last of them. Cases are interleaved, so that a campaign that runs out
of time has gates of each case, and every row states its number of gates. results/NAME/verdicts.tar.xz contains the verdicts
with every pair that was judged.

Stored sessions are added during the whole campaign, one for every fourth gate that uses them. To judge a subject that became
slower, the stored lateness is divided; the new session is the same as for an unchanged subject.
"""

import argparse
import gzip
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
# The verdicts of all gates of a campaign in short, without their pairs.
CAMPAIGN_FILE = "gate-campaign.json.gz"


def program_arguments(change, *flags, loop=""):
    return ["--base-cmd", f"./slowed-loop none {loop}", "--candidate-cmd", f"./slowed-loop {change} {loop}", *flags]


def subject_arguments(subject, *flags):
    return ["--a", subject, "--b", subject, *flags]


def wheel_arguments(change, period="500us"):
    return program_arguments(change, "--period", period, loop=f"wheel {period}")


def work_arguments(percent):
    return ["--base-cmd", "./slowed-loop work-100", "--candidate-cmd", f"./slowed-loop work-{percent}", "--metric", "wall"]


class StoredSessions(list):
    """The arguments of a gate by stored sessions of a subject, whose stored lateness is divided by `slower`."""

    def __init__(self, subject, slower=1.0):
        super().__init__(["--subject", subject])
        self.subject, self.slower = subject, slower


# The cases by name: number of gates, change, correct verdict, arguments.
CASES = {
    "same-program": (40, "nothing, a user program", "pass", program_arguments("none")),
    "same-wheel-program": (40, "nothing, a program on tokio's wheel", "pass", wheel_arguments("none")),
    "same-subject": (60, "nothing, `os-interval` in the gate's process", "pass", subject_arguments("os-interval")),
    "same-tokio-interval": (60, "nothing, `tokio-interval`", "pass", subject_arguments("tokio-interval")),
    "same-tokio-skip": (40, "nothing, `tokio-interval-skip`", "pass",
                        subject_arguments("tokio-interval-skip")),
    "same-tokio-sleep": (40, "nothing, `tokio-sleep-reused`, two threads", "pass",
                         subject_arguments("tokio-sleep-reused", "--runtime", "multi-thread:2")),
    "duet-os-interval": (40, "nothing, `os-interval`, both at once", "pass",
                         subject_arguments("os-interval", "--duet")),
    "duet-tokio-interval": (40, "nothing, `tokio-interval`, both at once", "pass",
                            subject_arguments("tokio-interval", "--duet")),
    "stored-os-interval": (30, "nothing, `os-interval` by stored sessions", "pass", StoredSessions("os-interval")),
    "same-wall": (40, "nothing, wall time of 50 ms of work", "pass", work_arguments(100)),
    "all-20-percent": (40, "every tick 20 % later", "regressed", program_arguments("all-20-percent")),
    "plus-5us": (40, "every tick 5 us later", "regressed", program_arguments("plus-5us")),
    "plus-5us-tolerance-10": (40, "every tick 5 us later, `--tolerance p50=10%`", "regressed",
                              program_arguments("plus-5us", "--tolerance", "p50=10%")),
    "tail-50-percent": (40, "the last twentieth of the ticks 50 % later", "regressed",
                        program_arguments("tail-50-percent")),
    "wheel-all-20-percent": (40, "on the wheel at 2 ms, every tick 20 % later", "regressed",
                             wheel_arguments("all-20-percent", "2ms")),
    "wheel-tail-100-percent": (40, "on the wheel at 2 ms, the last twentieth twice as late", "regressed",
                               wheel_arguments("tail-100-percent", "2ms")),
    "wheel-plus-500us": (40, "on the wheel at 2 ms, every tick 500 us later", "regressed",
                         wheel_arguments("plus-500us", "2ms")),
    "wheel-handler-1ms": (40, "on the wheel, 1 ms of work after each tick", "regressed", wheel_arguments("handler-1ms")),
    "wall-10-percent": (40, "50 ms of work take 10 % more wall time", "regressed", work_arguments(110)),
    "stored-20-percent": (30, "`os-interval` 20 % later than its stored sessions", "regressed",
                          StoredSessions("os-interval", 1.2)),
}


def interleave_cases():
    """Yields the case and number of every gate of the campaign."""
    max_count = max(count for count, *_ in CASES.values())
    for number in range(max_count):
        for case, (count, *_) in CASES.items():
            # Cases with fewer gates are spread over the whole campaign.
            if number * count // max_count != (number + 1) * count // max_count:
                yield case, number * count // max_count


def stored_arguments(gate, state, cpu, number):
    """Returns the arguments of a gate by this CPU's stored sessions; every fourth gate adds one."""
    file = state / f"sessions-{gate.subject}-cpu{cpu}.json"
    sessions = len(json.loads(file.read_text())["sessions"]) if file.exists() else 0
    # As in real use, osjitter does not add a session that is worse than the stored ones or undecided.
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


def run_lane(cpu, gates, state, end):
    """Runs gates on a CPU until none is left or time is up."""
    while time.monotonic() < end:
        try:
            case, number = gates.get_nowait()
        except queue.Empty:
            return
        result = state / f"{case}-{number:03}.json"
        if result.exists():
            continue
        out = state / f"cpu{cpu}"
        shutil.rmtree(out, ignore_errors=True)
        arguments = CASES[case][3]
        if isinstance(arguments, StoredSessions):
            arguments = stored_arguments(arguments, state, cpu, number)
            if arguments is None:
                print(f"{case} {number}: skipped, no session is stored yet", file=sys.stderr)
                continue
        command = ["./osjitter", "gate", "--quiet", *arguments, "--cpu", str(cpu), "--out", out]
        completed = subprocess.run(command, cwd=state, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if completed.returncode not in (0, 1):
            print(f"{case} {number}: exit code {completed.returncode}: {completed.stderr.strip()}", file=sys.stderr)
        if not (out / "verdict.json").exists():
            print(f"the lane of CPU {cpu} ends, because a gate wrote no verdict; start the campaign again to continue", file=sys.stderr)
            return
        (out / "verdict.json").rename(result)


def upper_bound(alarms, gates):
    """Returns the one-sided 95 % bound of a share by Clopper and Pearson."""
    def probability_of_at_most(rate):
        term, total = (1 - rate) ** gates, 0.0
        for k in range(alarms + 1):
            total += term
            term *= (gates - k) / (k + 1) * rate / (1 - rate) if rate < 1 else 0
        return total
    low, high = 0.0, 1.0 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if probability_of_at_most(middle) > 0.05 else (low, middle)
    return high


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def write_results(state, directory):
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
        sys.exit(f"cannot write results: {state} contains no verdict")
    rows.sort(key=lambda row: row["started_utc"])
    directory.mkdir(parents=True, exist_ok=True)
    campaign = json.dumps({"host": host, "gates": rows}, indent=1) + "\n"
    (directory / CAMPAIGN_FILE).write_bytes(gzip.compress(campaign.encode(), 9, mtime=0))
    with tarfile.open(directory / "verdicts.tar.xz", "w:xz") as archive:
        for file in sorted(state.glob("*-[0-9][0-9][0-9].json")):
            archive.add(file, file.name)

    lines = [
        "# Verdicts of the gate with known answers",
        "",
        f"{pages.machine(host)}; {rows[0]['started_utc'][:16]} to {rows[-1]['started_utc'][:16]} UTC, "
        f"{len(lanes)} gates at a time, each bound to a separate CPU, while the machine did other things; osjitter "
        f"{tool['version']}, commit {', '.join(sorted({row['commit'] or 'unknown' for row in rows}))}. "
        "The period is 500 us if none is named, and a round has 250 ticks. Written by `scripts/studies/gate-campaign.py` from "
        f"[`{CAMPAIGN_FILE}`]({CAMPAIGN_FILE}).",
        "",
        "| changed | gates | pass | regressed | inconclusive (by stalls) | could not run | A p50, median | p50 ratio, median "
        "| p99 ratio, median | seconds, median (90 %) | stalled ticks, median (90 %) | p99 lifted by, median (90 %) |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    unchanged = []
    for case, (_, change, correct, _) in CASES.items():
        case_rows = [row for row in rows if row["case"] == case]
        decided = [row for row in case_rows if not row["failure"]]
        if not decided:
            continue
        count = lambda *verdicts: sum(row["verdict"] in verdicts for row in decided)
        mark = lambda n, verdict: f"**{n}**" if verdict == correct else str(n)
        # Gates by wall time have no stalled ticks, so some values are missing.
        values = lambda field: [value for value in map(field, decided) if value is not None]
        format_quantile = lambda numbers, q, form: format(quantile(numbers, q), form) if numbers else "-"
        ratio = lambda k: format_quantile(values(lambda row: row["metrics"][k]["ratio"] if k < len(row["metrics"]) else None), 0.5, ".3f")
        seconds = [row["duration_ns"] / 1e9 for row in decided]
        stalled = values(lambda row: None if row["same_stall_share"] is None else 100 * row["same_stall_share"])
        by_stalls = sum(row["reason"] == "stall-dominated" for row in decided)
        lifted = values(lambda row: 100 * (row["metrics"][1]["lift"]["both"] - 1) if row["metrics"][-1]["lift"] else None)
        lines.append(
            f"| {change} | {len(case_rows)} | {mark(count('pass', 'improved'), 'pass')} | "
            f"{mark(count('regressed'), 'regressed')} | {count('inconclusive')} ({by_stalls}) | {len(case_rows) - len(decided)} | "
            f"{quantile([row['metrics'][0]['a_ns'] for row in decided], 0.5) / 1e3:.1f} us | {ratio(0)} | {ratio(1)} | "
            f"{quantile(seconds, 0.5):.0f} ({quantile(seconds, 0.9):.0f}) | "
            f"{format_quantile(stalled, 0.5, '.1f')} % ({format_quantile(stalled, 0.9, '.1f')} %) | "
            f"{format_quantile(lifted, 0.5, '.1f')} % ({format_quantile(lifted, 0.9, '.1f')} %) |")
        if correct == "pass":
            unchanged += decided
    alarms = sum(row["verdict"] == "regressed" for row in unchanged)
    lines += [
        "",
        f"False alarms: {alarms} of {len(unchanged)} gates in which nothing had changed; with 95 % confidence the rate is "
        f"below {100 * upper_bound(alarms, len(unchanged)):.1f} %. By design it is at most 0.5 %.",
        "",
        "The correct verdict is bold. Stalled ticks belong to a stall that is already counted with an earlier tick. The lift is the "
        "increase of p99 that stalls cause on both sides of a pair.",
        "",
    ]
    (directory / "gate-campaign.md").write_text("\n".join(lines))
    print("\n".join(lines))
    put_into_readme(directory.name, host, rows)


def read_campaign(file):
    return json.loads(gzip.decompress(file.read_bytes()))


def put_into_readme(name, host, rows):
    """Puts false alarms and found changes into the pages."""
    table = ["| Slowdown | Gates that decided | Found |", "|---|---:|---:|"]
    unchanged = []
    for case, (_, change, correct, _) in CASES.items():
        verdicts = [row["verdict"] for row in rows if row["case"] == case and not row["failure"]]
        decided = [verdict for verdict in verdicts if verdict != "inconclusive"]
        if correct == "pass":
            unchanged += verdicts
        elif decided:
            table.append(f"| {change} | {len(decided)} of {len(verdicts)} | {decided.count('regressed')} |")
    alarms = unchanged.count("regressed")
    block = "\n".join([
        f"False alarms: {alarms} of {len(unchanged)} gates with nothing changed (below {100 * upper_bound(alarms, len(unchanged)):.1f} % "
        "with 95 % confidence; at most 0.5 % by design).",
        "", *table, "",
        f"All results are in [`results/{name}`](results/{name}/gate-campaign.md): {pages.machine(host)}, "
        f"{rows[0]['started_utc'][:10]}."])
    pages.put("gate campaign", block)
    sentence, table = summarize_campaigns()
    pages.put("gate campaigns", f"{sentence}\n\n{table}")
    pages.put("gate errors", f"{sentence} The largest campaign is [`{name}`](results/{name}/gate-campaign.md).")
    pages.index(name, [(f"`{name}`", "gate-campaign.md")], host, "`scripts/studies/gate-campaign.py`")


def summarize_campaigns():
    """Summarizes all campaigns that used the current rule, in a sentence and in a table with a line for each."""
    lines = ["| Campaign | Gates | False alarms | Changes found | tokio's own timers, unchanged | A gate takes |",
             "|---|---:|---:|---:|---:|---:|"]
    unchanged, changes, gate_count = [], [], 0
    for file in sorted((ROOT / "results").glob(f"*/{CAMPAIGN_FILE}")):
        rows = [row for row in read_campaign(file)["gates"] if not row["failure"]]
        if not all("lift" in metric for row in rows for metric in row["metrics"]):
            continue  # The campaign used an earlier rule.
        verdicts = lambda correct: [row["verdict"] for row in rows if CASES[row["case"]][2] == correct]
        tokio = [row["verdict"] for row in rows if row["case"].startswith("same-tokio")]
        stalled = [row["same_stall_share"] for row in rows if row["same_stall_share"] is not None]
        seconds = quantile([row["duration_ns"] / 1e9 for row in rows], 0.5)
        line = [f"[{file.parent.name}](results/{file.parent.name}/gate-campaign.md), {100 * quantile(stalled, 0.5):.1f} % of ticks "
                "stalled", f"{len(rows)}", f"{verdicts('pass').count('regressed')} of {len(verdicts('pass'))}",
                f"{verdicts('regressed').count('regressed')} of {len(verdicts('regressed'))}",
                f"{sum(verdict in ('pass', 'improved') for verdict in tokio)} of {len(tokio)} pass", f"{seconds:.0f} s"]
        lines.append(f"| {' | '.join(line)} |")
        unchanged, changes = unchanged + verdicts("pass"), changes + verdicts("regressed")
        gate_count += len(rows)
    alarms, found = unchanged.count("regressed"), changes.count("regressed")
    sentence = (f"{gate_count} gates with known answers: {alarms} false alarms of {len(unchanged)} (below "
                f"{100 * upper_bound(alarms, len(unchanged)):.1f} % with 95 % confidence), {found} of {len(changes)} changes found.")
    return sentence, "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="directory below results/")
    parser.add_argument("--cpus", default="1", help="CPUs with a lane each, for example 1,2,3")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--case", action="append", choices=CASES, help="run only these cases")
    parser.add_argument("--table", action="store_true", help="only write the results")
    parser.add_argument("--readme", action="store_true", help="only write the pages, from committed results")
    args = parser.parse_args()
    if args.readme:
        campaign = read_campaign(ROOT / "results" / args.name / CAMPAIGN_FILE)
        return put_into_readme(args.name, campaign["host"], campaign["gates"])
    state = ROOT / "target/gate-campaign" / args.name
    state.mkdir(parents=True, exist_ok=True)
    if not args.table:
        # A campaign uses the same programs from start to end.
        for program in (build_osjitter(), build_study("slowed-loop")):
            if not (state / program.name).exists():
                shutil.copy(program, state)
        gates = queue.SimpleQueue()
        for gate in interleave_cases():
            if not args.case or gate[0] in args.case:
                gates.put(gate)
        end = time.monotonic() + 60 * args.minutes
        lanes = [threading.Thread(target=run_lane, args=(cpu, gates, state, end)) for cpu in args.cpus.split(",")]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()
    write_results(state, ROOT / "results" / args.name)


if __name__ == "__main__":
    main()
