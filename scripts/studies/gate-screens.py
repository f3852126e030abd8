#!/usr/bin/env python3
"""Counts screens (`osjitter gate --screen`) that call an unchanged program clearly worse, finds of slower ones, and their times.

  scripts/studies/gate-screens.py NAME [--unchanged 200] [--slower 20] [--osjitter target/release/osjitter]
  scripts/studies/gate-screens.py NAME --table      only write the results of screens that have ended

The kinds alternate: rounds of `os-interval` (the slower side is `tokio-interval`), whole runs of a loop of awk (the slower side
has 20 % more iterations), and the benchmarks of scripts/studies/criterion-suite (unchanged only). Verdicts are kept in
target/gate-screens/NAME, and a study that is started again continues after the last of them. Writes
results/NAME/gate-screens.json and a block of the book. Exits with 1 if an unchanged program was clearly worse, if a slower one passed, or if a screen took
longer than 15 s.
"""
import argparse, json, os, pathlib, shutil, subprocess, sys, time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
from pages import ROOT, index, machine, put  # noqa: E402, in scripts/results
from programs import build_criterion_sides, build_osjitter  # noqa: E402

MAX_SECONDS = 15
ITERATIONS = {"unchanged": 4_000_000, "slower": 4_800_000}
SUBJECTS = {"unchanged": "os-interval", "slower": "tokio-interval"}


def sides(home, kind, change):
    """Returns the arguments that name the sides of a screen."""
    loop = "awk 'BEGIN {{ for (i = 0; i < {}; i++) x += i }}'"
    if kind == "rounds":
        return ["--a", SUBJECTS["unchanged"], "--b", SUBJECTS[change]]
    if kind == "runs":
        base, candidate = (loop.format(ITERATIONS[side]) for side in ("unchanged", change))
        return ["--base-cmd", base, "--candidate-cmd", candidate, "--metric", "wall"]
    return ["--base-cmd", f"{home / 'base'} --bench", "--candidate-cmd", f"{home / 'same'} --bench", "--metric", "criterion"]


def plan_screens(unchanged, slower):
    """Lists the screens, with their kinds alternating and those of a slower program in between."""
    kinds, slower_kinds = ("rounds", "runs", "benches"), ("rounds", "runs")
    screens = [((n + 0.5) / unchanged, kinds[n % 3], "unchanged", n) for n in range(unchanged)]
    screens += [((n + 0.5) / slower, slower_kinds[n % 2], "slower", n) for n in range(slower)]
    return [screen[1:] for screen in sorted(screens)]


def run_screen(osjitter, home, out, kind, change, number):
    shutil.rmtree(out, ignore_errors=True)
    command = [osjitter, "gate", "--screen", "--quiet", *sides(home, kind, change), "--seed", str(number), "--format", "json",
               "--out", str(out)]
    started = time.monotonic()
    completed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = round(time.monotonic() - started, 2)
    if completed.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit code {completed.returncode}\n{completed.stderr}")
    (out / "seconds").write_text(f"{seconds}\n")


def summarize(out):
    """Returns the result of a screen that has ended, and its host."""
    verdict = json.loads((out / "verdict.json").read_text())
    kind, change, number = out.name.split("-")
    judged = verdict.get("runs") or verdict["comparisons"][0]
    result = {"kind": kind, "change": change, "screen": int(number), "verdict": verdict["verdict"], "pairs": judged["pairs"],
              "reason": verdict.get("reason"), "seconds": float((out / "seconds").read_text())}
    return result, verdict["host"]


def count(screens):
    """Counts the verdicts of each kind."""
    table = {}
    for screen in screens:
        row = table.setdefault(f"{screen['kind']}, {screen['change']}", {"screens": 0, "clearly worse": 0, "look closer": 0, "pass": 0})
        row["screens"] += 1
        row[{"regressed": "clearly worse", "inconclusive": "look closer"}.get(screen["verdict"], "pass")] += 1
    unchanged = [screen for screen in screens if screen["change"] == "unchanged"]
    return {
        "unchanged_screens": len(unchanged), "unchanged_alarms": sum(screen["verdict"] == "regressed" for screen in unchanged),
        "slower_screens": len(screens) - len(unchanged),
        "slower_passed": sum(screen["verdict"] == "pass" for screen in screens if screen["change"] == "slower"),
        "longest_s": max(screen["seconds"] for screen in screens), "kinds": table,
    }


def describe(counts, name, host):
    """Describes the counts for the book."""
    found = sum(row["clearly worse"] for kind, row in counts["kinds"].items() if kind.endswith("slower"))
    return (f"Of {counts['unchanged_screens']} screens of unchanged programs, {counts['unchanged_alarms']} ended with *clearly worse*. Of "
            f"{counts['slower_screens']} screens of slower ones, {found} did, and {counts['slower_passed']} passed. The longest took "
            f"{counts['longest_s']:.1f} s. Source: [`gate-screens.json`](results/{name}/gate-screens.json). {machine(host)}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--unchanged", type=int, default=200, help="number of screens of unchanged programs")
    parser.add_argument("--slower", type=int, default=20, help="number of screens of slower programs")
    parser.add_argument("--osjitter", help="a built osjitter")
    parser.add_argument("--table", action="store_true", help="run no screen")
    args = parser.parse_args()
    home = ROOT / "target/gate-screens" / args.name
    home.mkdir(parents=True, exist_ok=True)
    if not args.table:
        osjitter = os.path.abspath(args.osjitter) if args.osjitter else str(build_osjitter())
        build_criterion_sides(home)
    screens, host = [], None
    for kind, change, number in plan_screens(args.unchanged, args.slower):
        out = home / f"{kind}-{change}-{number}"
        if not (out / "seconds").exists():
            if args.table:
                continue
            run_screen(osjitter, home, out, kind, change, number)
        screen, host = summarize(out)
        screens.append(screen)
        print(json.dumps(screen), flush=True)
    if not screens:
        sys.exit("no screen has ended")
    counts = count(screens)
    print(json.dumps(counts, indent=1))
    directory = ROOT / "results" / args.name
    directory.mkdir(exist_ok=True)
    content = {"command": "osjitter gate --screen", "host": host, **counts, "verdicts": screens}
    (directory / "gate-screens.json").write_text(json.dumps(content, indent=1) + "\n")
    index(args.name, [(f"`{args.name}`", "gate-screens.json")], host, "`scripts/studies/gate-screens.py`")
    put("screens of programs", describe(counts, args.name, host))
    print(f"{machine(host)}: results/{args.name}/gate-screens.json")
    sys.exit(counts["unchanged_alarms"] > 0 or counts["slower_passed"] > 0 or counts["longest_s"] > MAX_SECONDS)


main()
