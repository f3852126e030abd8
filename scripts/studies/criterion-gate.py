#!/usr/bin/env python3
"""Gates a Criterion suite of six benchmarks: counts false alarms without a change, and finds of one benchmark that is 5 % slower.

  scripts/studies/criterion-gate.py NAME [--unchanged 100] [--slowed 20] [--osjitter target/release/osjitter]
  scripts/studies/criterion-gate.py NAME --table      only write the results of gates that have ended

The suite is scripts/studies/criterion-suite, built twice; its feature `slowed` gives the benchmark `parse` 5 % more work. A gate
is `osjitter gate --metric criterion` with the flags of GATE. The gates of both kinds are interleaved. Verdicts are kept in
target/criterion-gate/NAME, and a study that is started again continues after the last of them. Writes
results/NAME/criterion-gate.json and a block of the book. Exits with 1 if an unchanged benchmark raised an alarm, or if a slowed one was not found.
"""
import argparse, json, os, pathlib, shutil, subprocess, sys, time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
from pages import ROOT, index, machine, put  # noqa: E402, in scripts/results
from programs import build_criterion_sides, build_osjitter  # noqa: E402

GATE = ["--metric", "criterion", "--tolerance", "3%"]
SLOWED_BENCH = "parse"


def run_gate(osjitter, home, kind, number):
    out = home / f"{kind}-{number}"
    shutil.rmtree(out, ignore_errors=True)
    candidate = home / ("slow" if kind == "slowed" else "same")
    command = [osjitter, "gate", "--quiet", *GATE, "--base-cmd", f"{home / 'base'} --bench", "--candidate-cmd", f"{candidate} --bench",
               "--seed", str(number), "--format", "json", "--out", str(out)]
    started = time.monotonic()
    completed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = round(time.monotonic() - started, 1)
    if completed.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit code {completed.returncode}\n{completed.stderr}")
    (out / "seconds").write_text(f"{seconds}\n")
    return summarize(out)


def summarize(out):
    """Returns the result of a gate that has ended, and its host."""
    verdict = json.loads((out / "verdict.json").read_text())
    runs = verdict["runs"]
    benches = {m["name"]: {"verdict": m["verdict"], "ratio": round(m["b"] / m["a"], 4)} for m in runs["metrics"]}
    kind, number = out.name.split("-")
    result = {"kind": kind, "gate": int(number), "verdict": runs["verdict"], "pairs": runs["pairs"],
              "seconds": float((out / "seconds").read_text()), "benches": benches}
    return result, verdict["host"]


def plan_gates(unchanged, slowed):
    """Lists the gates of both kinds, interleaved."""
    gates = [((number + 0.5) / unchanged, "unchanged", number) for number in range(unchanged)]
    gates += [((number + 0.5) / slowed, "slowed", number) for number in range(slowed)]
    return [(kind, number) for _, kind, number in sorted(gates)]


def count(gates):
    """Counts alarms and finds. In a slowed suite, an alarm of another benchmark than the slowed one is false."""
    regressed = [{name for name, bench in gate["benches"].items() if bench["verdict"] == "regressed"} for gate in gates]
    kinds = {kind: [(gate, names) for gate, names in zip(gates, regressed) if gate["kind"] == kind] for kind in ("unchanged", "slowed")}
    seconds = {kind: sorted(gate["seconds"] for gate, _ in found) for kind, found in kinds.items()}
    return {
        "unchanged_gates": len(kinds["unchanged"]), "unchanged_alarms": sum(bool(names) for _, names in kinds["unchanged"]),
        "unchanged_inconclusive": sum(gate["verdict"] == "inconclusive" for gate, _ in kinds["unchanged"]),
        "slowed_gates": len(kinds["slowed"]), "slowed_found": sum(SLOWED_BENCH in names for _, names in kinds["slowed"]),
        "slowed_found_within_90_s": sum(SLOWED_BENCH in names and gate["seconds"] <= 90 for gate, names in kinds["slowed"]),
        "slowed_false_alarms": sum(bool(names - {SLOWED_BENCH}) for _, names in kinds["slowed"]),
        "seconds": {kind: {"median": times[len(times) // 2], "longest": times[-1]} for kind, times in seconds.items() if times},
    }


def describe(counts, name, host):
    """Describes the counts for the book."""
    slowed, unchanged = counts["seconds"]["slowed"], counts["seconds"]["unchanged"]
    return (f"A suite of six benchmarks was gated with one of them slowed by 5 %: {counts['slowed_found']} of {counts['slowed_gates']} gates "
            f"found it, in {slowed['median']:.0f} s at the median and {slowed['longest']:.0f} s at most. Of {counts['unchanged_gates']} gates "
            f"of the same suite without a change, {counts['unchanged_alarms']} raised an alarm; they took {unchanged['median']:.0f} s at the "
            f"median. Source: [`criterion-gate.json`](results/{name}/criterion-gate.json). {machine(host)}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--unchanged", type=int, default=100, help="number of gates without a change")
    parser.add_argument("--slowed", type=int, default=20, help="number of gates with a slowed benchmark")
    parser.add_argument("--osjitter", help="a built osjitter")
    parser.add_argument("--table", action="store_true", help="run no gate")
    args = parser.parse_args()
    home = ROOT / "target/criterion-gate" / args.name
    home.mkdir(parents=True, exist_ok=True)
    if not args.table:
        osjitter = os.path.abspath(args.osjitter) if args.osjitter else str(build_osjitter())
        build_criterion_sides(home)
    gates, host = [], None
    for kind, number in plan_gates(args.unchanged, args.slowed):
        out = home / f"{kind}-{number}"
        has_ended = (out / "seconds").exists()
        if has_ended or not args.table:
            gate, host = summarize(out) if has_ended else run_gate(osjitter, home, kind, number)
            gates.append(gate)
            print(json.dumps({key: gate[key] for key in ("kind", "gate", "verdict", "pairs", "seconds")}), flush=True)
    if not gates:
        sys.exit("no gate has ended")
    counts = count(gates)
    print(json.dumps(counts, indent=1))
    directory = ROOT / "results" / args.name
    directory.mkdir(exist_ok=True)
    content = {"command": f"osjitter gate {' '.join(GATE)}", "host": host, **counts, "gates": gates}
    (directory / "criterion-gate.json").write_text(json.dumps(content, indent=1) + "\n")
    index(args.name, [(f"`{args.name}`", "criterion-gate.json")], host, "`scripts/studies/criterion-gate.py`")
    put("gates of a suite", describe(counts, args.name, host))
    print(f"{machine(host)}: results/{args.name}/criterion-gate.json")
    is_missed = counts["slowed_found_within_90_s"] < counts["slowed_gates"]
    sys.exit(counts["unchanged_alarms"] > 0 or is_missed)


main()
