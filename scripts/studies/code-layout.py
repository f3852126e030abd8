#!/usr/bin/env python3
"""Writes how far the layout of code moves benchmarks without a change, from two gates of one suite.

  scripts/studies/code-layout.py NAME --plain DIR --aligned DIR --slowed resp/resp

Both gates compare a suite with a copy of which one benchmark, --slowed, got more work. The sides of one gate are built without
aligned functions, those of the other one with them. DIR is the directory of a gate with its verdict.json. The committed figures are
of httparse 1.10.1, with `for work in 0..90_u32 { black_box(work); }` added to the benchmark resp of benches/parse.rs; all four
executables come from `cargo rustc --bench parse --profile bench` and run under `osjitter gate --metric criterion:FILTER
--max-pairs 100 --max-time 70s`. Writes results/NAME/code-layout.json and a block of the book.
"""
import argparse, json, pathlib, sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
from pages import ROOT, index, machine, put  # noqa: E402, in scripts/results


def read_gate(directory):
    """Returns the host, and the verdict, median and ratio of each benchmark."""
    verdict = json.loads((pathlib.Path(directory) / "verdict.json").read_text())
    benches = {metric["name"]: [metric["verdict"], round(metric["a"], 3), round(metric["ratio"], 4)] for metric in verdict["runs"]["metrics"]}
    return verdict["host"], benches


def describe(gates, slowed, name, host):
    """Describes both gates for the book."""
    lines = ["| httparse, one benchmark slowed | Unchanged benchmarks | Regressed | Improved | Undecided | Largest change | The slowed one |",
             "|---|---:|---:|---:|---:|---:|---|"]
    for label, benches in (("as cargo builds it", gates["plain"]), ("aligned functions", gates["aligned"])):
        others = [bench for other, bench in benches.items() if other != slowed]
        count = lambda verdict: [bench[0] for bench in others].count(verdict)
        largest = max((ratio - 1 for _, _, ratio in others), key=abs)
        verdict, _, ratio = benches[slowed]
        lines.append(f"| {label} | {len(others)} | {count('regressed')} | {count('improved')} | {count('inconclusive')} | {100 * largest:+.0f} % "
                     f"| {verdict}, {100 * (ratio - 1):+.0f} % |")
    return "\n".join([*lines, "", f"Source: [`code-layout.json`](results/{name}/code-layout.json). {machine(host)}."])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="directory below results/")
    parser.add_argument("--plain", required=True)
    parser.add_argument("--aligned", required=True)
    parser.add_argument("--slowed", required=True, help="the benchmark that got more work")
    args = parser.parse_args()
    host, plain = read_gate(args.plain)
    gates = {"plain": plain, "aligned": read_gate(args.aligned)[1]}
    directory = ROOT / "results" / args.name
    directory.mkdir(exist_ok=True)
    content = {"slowed": args.slowed, "host": host, "columns": ["verdict", "median of the base in ns", "ratio"], **gates}
    (directory / "code-layout.json").write_text(json.dumps(content) + "\n")
    put("code layout", describe(gates, args.slowed, args.name, host))
    index(args.name, [(f"`{args.name}`", "code-layout.json")], host, "`scripts/studies/code-layout.py`")


main()
