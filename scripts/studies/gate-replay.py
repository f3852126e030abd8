#!/usr/bin/env python3
"""Judges the recorded pairs of results/gate-dataset by the present rules, and compares the verdicts with the recorded ones.

    scripts/studies/gate-replay.py

The present rules take their looks at the recorded pairs until one decides; a gate that none decides is undecided. Writes
gate-replay.json into the data set and a block of the book. Exits with 1 if a verdict is wrong that was not wrong when it was
recorded. Needs pyarrow; see scripts/results/requirements.txt.
"""

import collections
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

import pyarrow.parquet

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from programs import build_study  # noqa: E402

RESULTS = pathlib.Path(pages.__file__).parent
SIDES = ["base_ns", "candidate_ns"]
UNSTALLED_SIDES = ["base_without_stalls_ns", "candidate_without_stalls_ns"]


def load_dataset_script():
    spec = importlib.util.spec_from_file_location("dataset", RESULTS / "gate-dataset.py")
    dataset = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dataset)
    return dataset


def read_gates(directory):
    """Reads the gates with the recorded verdict of each metric."""
    gates = {}
    for row in pyarrow.parquet.read_table(directory / "gates.parquet").to_pylist():
        gate = gates.setdefault(row["gate"], {key: row[key] for key in ("gate", "case", "is_slower", "mode")} | {"recorded": {}})
        gate["recorded"][row["metric"]] = row["verdict"]
    return gates


def read_pairs(directory, cases, gates):
    """Adds the pairs of each gate, in the order in which they were measured, and how it was called."""
    for gate in gates.values():
        arguments = cases[gate["case"]][3]
        gate["period_ns"] = 2_000_000 if "2ms" in arguments else 500_000
        gate["tolerance_p50"] = 0.10 if "p50=10%" in arguments else None
    table = pyarrow.parquet.read_table(directory / "pairs.parquet").sort_by([("gate", "ascending"), ("pair", "ascending")])
    for row in table.to_pylist():
        columns = SIDES if row["metric"] == "wall" else SIDES + UNSTALLED_SIDES
        gates[row["gate"]].setdefault(row["metric"], []).append([row[column] for column in columns])


def replay(gates):
    """Adds the present verdict of each gate."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(list(gates.values()), file)
        file.flush()
        judged = subprocess.run([build_study("gate-replay"), file.name], check=True, stdout=subprocess.PIPE).stdout
    for gate, verdict in zip(gates.values(), json.loads(judged), strict=True):
        gate["now"] = {name: metric["verdict"] for name, metric in verdict["metrics"].items()}


def worst(verdicts):
    """Returns the verdict of a gate by those of its metrics."""
    return max(verdicts.values(), key=["pass", "improved", "inconclusive", "regressed"].index)


def is_wrong(gate, verdict):
    """Returns whether a verdict contradicts the label: an alarm without a change, or a pass of a change."""
    return verdict in (("pass", "improved") if gate["is_slower"] else ("regressed",))


def count(gates):
    """Counts the gates of each case by their recorded and present verdict."""
    cases = {}
    for gate in gates:
        verdicts = cases.setdefault(gate["case"], collections.Counter())
        verdicts[f"{worst(gate['recorded'])} > {worst(gate['now'])}"] += 1
    totals = {"gates": len(gates), "same": sum(worst(gate["recorded"]) == worst(gate["now"]) for gate in gates),
              "unchanged_programs": sum(not gate["is_slower"] for gate in gates)}
    for rules in ("recorded", "now"):
        wrong = [gate for gate in gates if is_wrong(gate, worst(gate[rules]))]
        totals[f"{rules}_alarms"] = sum(not gate["is_slower"] for gate in wrong)
        totals[f"{rules}_missed"] = sum(gate["is_slower"] for gate in wrong)
        totals[f"{rules}_undecided"] = sum(worst(gate[rules]) == "inconclusive" for gate in gates)
    changed = [{"gate": gate["gate"], "case": gate["case"], "recorded": gate["recorded"], "now": gate["now"]}
               for gate in gates if gate["recorded"] != gate["now"]]
    return {**totals, "cases": {case: dict(verdicts) for case, verdicts in cases.items()}, "changed": changed}


def describe(counts):
    """Describes the counts for the book."""
    slower = counts["gates"] - counts["unchanged_programs"]
    return (f"The pairs of the {counts['gates']} recorded gates of the [data set](results/gate-dataset/README.md), judged again by the rules of this "
            f"version: {counts['same']} have the recorded verdict; {counts['now_alarms']} of {counts['unchanged_programs']} raise a false alarm "
            f"(recorded: {counts['recorded_alarms']}), {counts['now_missed']} of {slower} pass a slower program ({counts['recorded_missed']}), "
            f"and {counts['now_undecided']} are undecided after the recorded pairs ({counts['recorded_undecided']}). "
            f"Source: [`gate-replay.json`](results/gate-dataset/gate-replay.json).")


def main():
    dataset = load_dataset_script()
    gates = read_gates(dataset.DIRECTORY)
    read_pairs(dataset.DIRECTORY, dataset.load_cases(), gates)
    replay(gates)
    counts = count(list(gates.values()))
    print(json.dumps(counts, indent=1))
    (dataset.DIRECTORY / "gate-replay.json").write_text(json.dumps(counts) + "\n")
    pages.put("gate replay", describe(counts))
    pages.index(dataset.DIRECTORY.name, [(f"`{dataset.DIRECTORY.name}`", "README.md")], dataset.read_host(),
                "`scripts/results/gate-dataset.py`, `scripts/studies/gate-replay.py`")
    wrong = [gate for gate in gates.values() if is_wrong(gate, worst(gate["now"])) and not is_wrong(gate, worst(gate["recorded"]))]
    sys.exit(bool(wrong))


main()
