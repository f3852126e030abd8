#!/usr/bin/env python3
"""Gates suites of benchmarks against themselves, and counts the verdicts: each alarm is a false one.

  scripts/studies/bench-alarms.py NAME --suite criterion='target/release/deps/suite-9a2e --bench' --suite go=./go.test [--gates 67]
  scripts/studies/bench-alarms.py NAME --table      only write the results of gates that have ended

A suite is a harness of `osjitter gate --metric` and a command; `--suite HARNESS=BASE==CANDIDATE` names a command for each side.
Several suites are gated alternately. A gate is `osjitter gate` with the flags of GATE. Results are kept in target/bench-alarms/NAME, and a study
that is started again continues after the last of them. Writes results/NAME/bench-alarms.json. Exits with 1 if a gate raised an alarm.
"""
import argparse, json, os, pathlib, subprocess, sys, time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
from pages import ROOT, index, machine  # noqa: E402, in scripts/results
from programs import build_osjitter  # noqa: E402

# The flags of a gate. Those that allow benchmarks without a result name two of scripts/ci/harnesses.
GATE = ["--max-pairs", "50", "--allow-unjudged", "test_planned", "--allow-unjudged", "BenchmarkOnlyRate"]


def run_gate(osjitter, harness, command, number, out):
    """Runs a gate and returns its result."""
    base, _, candidate = command.partition("==")
    words = [osjitter, "gate", "--quiet", "--metric", harness, "--base-cmd", base, "--candidate-cmd", candidate or base,
             *GATE, "--seed", str(number), "--format", "json", "--out", str(out.with_suffix("")), "--force"]
    started = time.monotonic()
    completed = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = round(time.monotonic() - started, 1)
    if completed.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(words)}: exit code {completed.returncode}\n{completed.stderr}")
    verdict = json.loads((out.with_suffix("") / "verdict.json").read_text())
    runs = verdict["runs"]
    judged = {metric["name"]: [metric["verdict"], round(metric["b"] / metric["a"], 4)] for metric in runs["metrics"]}
    others = {name: found for name, found in judged.items() if found[0] != "pass"}
    return {"harness": harness, "gate": number, "verdict": runs["verdict"], "pairs": runs["pairs"], "seconds": seconds,
            "benchmarks": len(judged), "not_passed": others}, verdict["host"]


def count(gates):
    """Counts the verdicts of the gates, and of their benchmarks, by harness."""
    counts = {}
    for harness in sorted({gate["harness"] for gate in gates}):
        own = [gate for gate in gates if gate["harness"] == harness]
        seconds = sorted(gate["seconds"] for gate in own)
        not_passed = [verdict for gate in own for verdict, _ in gate["not_passed"].values()]
        counts[harness] = {"gates": len(own), "benchmarks": sum(gate["benchmarks"] for gate in own),
                           "alarms": sum(gate["verdict"] == "regressed" for gate in own),
                           "improved": sum(gate["verdict"] == "improved" for gate in own),
                           "inconclusive": sum(gate["verdict"] == "inconclusive" for gate in own),
                           "benchmarks_improved": not_passed.count("improved"), "benchmarks_inconclusive": not_passed.count("inconclusive"),
                           "median_seconds": seconds[len(seconds) // 2], "longest_seconds": seconds[-1]}
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--suite", action="append", default=[], help="HARNESS=COMMAND, or HARNESS=BASE==CANDIDATE")
    parser.add_argument("--gates", type=int, default=67, help="number of gates of each suite")
    parser.add_argument("--osjitter", help="a built osjitter")
    parser.add_argument("--table", action="store_true", help="run no gate")
    args = parser.parse_args()
    home = ROOT / "target/bench-alarms" / args.name
    home.mkdir(parents=True, exist_ok=True)
    if not args.table:
        osjitter = os.path.abspath(args.osjitter) if args.osjitter else str(build_osjitter())
        for number in range(args.gates):
            for suite in args.suite:
                harness, command = suite.split("=", 1)
                out = home / f"{harness}-{number}.json"
                if not out.exists():
                    gate, host = run_gate(osjitter, harness, command, number, out)
                    out.write_text(json.dumps({"gate": gate, "host": host}))
                    print(json.dumps(gate), flush=True)
    ended = [json.loads(path.read_text()) for path in sorted(home.glob("*.json"))]
    if not ended:
        sys.exit("no gate has ended")
    gates, host = [entry["gate"] for entry in ended], ended[-1]["host"]
    counts = count(gates)
    print(json.dumps(counts, indent=1))
    directory = ROOT / "results" / args.name
    directory.mkdir(exist_ok=True)
    content = {"command": f"osjitter gate --metric HARNESS {' '.join(GATE)}", "host": host, "harnesses": counts,
               "gates": gates}
    (directory / "bench-alarms.json").write_text(json.dumps(content) + "\n")
    index(args.name, [(f"`{args.name}`", "bench-alarms.json")], host, "`scripts/studies/bench-alarms.py`")
    print(f"{machine(host)}: results/{args.name}/bench-alarms.json")
    sys.exit(any(counted["alarms"] for counted in counts.values()))


main()
