#!/usr/bin/env python3
"""Sends messages between two threads through the channels of busypoll and of nexus-async-rt, and counts the runs that hang.

  scripts/studies/lost-wakes.py NAME [--rounds 5] [--messages 1000000]
  scripts/studies/lost-wakes.py NAME --table      only write the table of results/NAME/lost-wakes.json

A channel loses a wake if one side starts to wait at the moment at which the other side checks for a waiter. The program
scripts/studies/peers/dispatch/src/bin/lost-wakes.rs makes the runs. Writes results/NAME/lost-wakes.json and a block of the README of
busypoll.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[1] / "results"))
from pages import ROOT, index, machine, put, this_machine  # noqa: E402, in scripts/results
from programs import build_peer  # noqa: E402


def describe_outcome(runs):
    """Describes the runs of one runtime through one channel."""
    complete = sum(run["outcome"] == "complete" for run in runs)
    if complete == len(runs):
        return f"{complete} of {len(runs)} complete"
    parts = []
    for outcome in sorted({run["outcome"] for run in runs} - {"complete"}):
        others = [run for run in runs if run["outcome"] == outcome]
        text = f"{len(others)} of {len(runs)} {outcome}"
        if outcome == "hung":
            text += f", after {median(run['delivered'] for run in others):,.0f} messages"
        parts.append(text)
    return "; ".join(parts)


def describe_lost_wakes(runs):
    """Describes which side of the runs that hung continued after it was woken by hand."""
    hung = [run["lost_wake_of"] for run in runs if run["outcome"] == "hung"]
    if not hung:
        return "No run hung."
    parts = [f"{hung.count(side)} continued after the {side} was woken by hand" for side in ("sender", "receiver") if side in hung]
    return f"Of the {len(hung)} runs that hung, {' and '.join(parts) or 'none continued'}."


def make_table(report):
    """Returns a table with a row for each channel and capacity."""
    runs = report["runs"]
    rows = ["| Channel | Capacity | busypoll | nexus-async-rt |", "|---|---:|---|---|"]
    for channel, capacity in dict.fromkeys((run["channel"], run["capacity"]) for run in runs):
        cells = [describe_outcome([run for run in runs if (run["channel"], run["capacity"], run["runtime"]) == (channel, capacity, runtime)])
                 for runtime in ("busypoll", "nexus-async-rt")]
        rows.append(f"| `{channel}` | {capacity} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    args = parser.parse_args()
    file = ROOT / "results" / args.name / "lost-wakes.json"
    if not args.table:
        command = [build_peer("lost-wakes", package="peer-dispatch"), "--rounds", str(args.rounds), "--messages", str(args.messages)]
        measured = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"host": this_machine(), **measured}, indent=1) + "\n")
    report = json.loads(file.read_text())
    cost, host = report["uncontended_ns"], report["host"]
    put("lost wakes", f"""{make_table(report)}

Each run sent {report['messages']:,} messages between two spinning runtimes, by `send().await` and `recv().await`. A run hung if none
arrived for {report['hang_timeout_s']} s. {describe_lost_wakes(report['runs'])}

This safety is the reason why `channel-spsc` and `channel-mpsc` cost more here. Both halves of these channels advance a shared word
by a locked instruction, without which the CPU may check for a waiter before the value is visible. An uncontended one takes
{cost['swap']:.1f} ns on this machine, an ordinary store {cost['store']:.1f} ns, and a message needs two. In nexus-async-rt, the halves of `spsc` and
the receiver of `mpsc` have none, and a `send` that finds the channel full registers its waker without trying again. From
[`lost-wakes.json`](results/{args.name}/lost-wakes.json): {machine(host)}.""")
    index(args.name, [(f"`{args.name}`", "lost-wakes.json")], host, "`scripts/studies/lost-wakes.py`")


main()
