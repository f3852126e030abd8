"""Writes the results of a fuzzing run, so that the book can state how much was fuzzed: `publish.py STATS SEED [NAME]`.

fuzz/run.sh calls it. It prints the table of the run. With a name, the run is added to those in results/NAME, and their sums
go into the book.
"""

import json
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "scripts/results"))
import pages  # noqa: E402, in scripts/results

COLUMNS = "| target | executions | a second | accepted | behaviours | peak memory | slowest step |\n|---|--:|--:|--:|--:|--:|--:|\n"


def count_executions(runs):
    return sum(line["executions"] for run in runs for line in run["targets"])


def format_row(lines):
    """Returns the row of a target over all runs."""
    executions = sum(line["executions"] for line in lines)
    if "by" in lines[0]:
        return f"| {lines[0]['target']}, {lines[0]['by']} | {executions:,} | | | | | |\n"
    rate = executions / max(sum(line["seconds"] for line in lines), 0.001)
    accepted = sum(line["accepted"] for line in lines) / executions
    peak = max(lines, key=lambda line: line["peak_bytes"])
    slowest = max(lines, key=lambda line: line["slowest_ms"])
    return (f"| {lines[0]['target']} | {executions:,} | {rate:,.0f} | {accepted:.0%} | {max(l['behaviours'] for l in lines):,} | "
            f"{peak['peak_bytes'] / 2**20:.1f} MiB of {peak['peak_of_input_bytes']:,} B | "
            f"{slowest['slowest_ms']:.1f} ms, {slowest['slowest_step']}, {slowest['slowest_of_input_bytes']:,} B |\n")


def format_table(runs):
    by_target = {}
    for line in (line for run in runs for line in run["targets"]):
        by_target.setdefault((line.get("by", ""), line["target"]), []).append(line)
    finds = [find for run in runs for find in run["finds"]]
    commits = ", ".join(dict.fromkeys(run["commit"] for run in runs))
    return (f"# Fuzzing at {commits}\n\nSeeds {', '.join(str(run['seed']) for run in runs)}. {count_executions(runs):,} executions; "
            f"{len(finds)} finds: {', '.join(finds) or 'none'}.\n\n{COLUMNS}{''.join(format_row(by_target[key]) for key in sorted(by_target))}")


def format_sentence(name, runs):
    """Returns the sentence of the book."""
    lines = [line for run in runs for line in run["targets"]]
    without_cargo_fuzz = [line for line in lines if "by" not in line]
    finds = sum(len(run["finds"]) for run in runs)
    targets = (pages.ROOT / "fuzz/Cargo.toml").read_text().count("[[bin]]")
    uncounted = targets - len({line["target"] for line in lines})
    return (f"{count_executions(runs):,} executions over {targets} targets in {len(runs)} runs"
            f"{f' (without those of {uncounted} that failed in each run)' if uncounted else ''}: {finds or 'no'} finds"
            f"{', all of them fixed' if finds else ''}"
            f"{f'; the last run, {count_executions(runs[-1:]):,} executions, found nothing' if finds and not runs[-1]['finds'] else ''}. "
            f"{'Apart from the finds, the' if finds else 'The'} largest memory peak of an input was "
            f"{max(l['peak_bytes'] for l in without_cargo_fuzz) / 2**20:.1f} MiB, "
            f"and the slowest input took {max(l['slowest_ms'] for l in without_cargo_fuzz):.0f} ms "
            f"([the table](results/{name}/fuzz.md)).")


def main(stats, seed, name=None):
    lines = [json.loads(line) for line in pathlib.Path(stats).read_text().splitlines()]
    if not lines:
        sys.exit("cannot publish the results: no target finished")
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    out = pages.ROOT / (f"results/{name}" if name else "target/fuzzing")
    file = out / "fuzz.json"
    earlier_runs = json.loads(file.read_text())["runs"] if name and file.exists() else []
    # The directory also contains the finds of earlier runs.
    known = {find for run in earlier_runs for find in run["finds"]}
    finds = sorted({path.name for path in (pages.ROOT / "fuzz/finds").glob("*")} - known)
    run = {"commit": commit, "seed": int(seed), "finds": finds, "targets": lines}
    runs = [*earlier_runs, run]
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"schema": "osjitter-fuzz", "executions": count_executions(runs), "runs": runs}, indent=1) + "\n")
    (out / "fuzz.md").write_text(format_table(runs))
    print(format_table([run]))
    if name:
        pages.put("fuzzing", format_sentence(name, runs))
        pages.index(name, [(f"`{name}`", "fuzz.md")], pages.this_machine(), "`fuzz/run.sh`")


main(*sys.argv[1:])
