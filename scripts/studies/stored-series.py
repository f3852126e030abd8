#!/usr/bin/env python3
"""Applies the rules of gates to stored numbers of a database: 365 runs of TigerBeetle with six numbers each.

  scripts/studies/stored-series.py NAME DATA

DATA is backend/tests/data/tigerbeetle.json of the repository nyrkio/nyrkio (Apache 2.0). The script writes
results/NAME/stored-series.{json,md}.

Only the throughput has labelled changes: the tests of Apache Otava expect them at the runs 15 and 71 (tests/tigerbeetle_test.py,
p = 0.01). A change counts as found if a rule raises an alarm at most NEAR runs away from it. Run 10 is an outlier without a label.
The other alarms are false, or belong to changes without a label.
"""
import json, pathlib, subprocess, sys, tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
from pages import ROOT, index, this_machine  # noqa: E402, in scripts/results
from programs import build_study  # noqa: E402

LABELS = {"load_accepted": [15, 71]}
NEAR = 4


def read_series(data):
    # The file is not in the order of the runs. Sorted, the throughput is the series of Otava's tests.
    runs = sorted(json.loads(pathlib.Path(data).read_text()), key=lambda run: run["timestamp"])
    names = [metric["name"] for metric in runs[0]["metrics"]]
    values = [{metric["name"]: metric["value"] for metric in run["metrics"]} for run in runs]
    return [{"name": name, "values": [run[name] for run in values]} for name in names]


def judge(series):
    program = build_study("gate-league")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(series, file)
        file.flush()
        return json.loads(subprocess.run([program, "--series", file.name], check=True, stdout=subprocess.PIPE).stdout)


def write_results(name, series, rows):
    directory = ROOT / "results" / name
    directory.mkdir(exist_ok=True)
    content = {"labels": LABELS, "near_runs": NEAR, "runs": len(series[0]["values"]), "rows": rows}
    (directory / "stored-series.json").write_text(json.dumps(content, indent=1) + "\n")
    labelled, others = list(LABELS), [one["name"] for one in series if one["name"] not in LABELS]
    lines = [
        "# Rules for gates, applied to stored numbers", "",
        f"{len(series[0]['values'])} runs of TigerBeetle with {len(series)} numbers each. The series `{labelled[0]}` has two labelled "
        f"changes, at the runs {' and '.join(map(str, LABELS[labelled[0]]))}; an alarm within {NEAR} runs of one found it. Written by "
        "`scripts/studies/stored-series.py` from [`stored-series.json`](stored-series.json).", "",
        f"| rule | changes found | other alarms | alarms in the {len(others)} unlabelled series | later runs needed |", "|---|---:|---:|---:|---:|",
    ]
    for rule in dict.fromkeys(row["rule"] for row in rows):
        alarms = {row["series"]: row["alarms"] for row in rows if row["rule"] == rule}
        later = next(row["later_runs"] for row in rows if row["rule"] == rule)
        labels = LABELS[labelled[0]]
        near = lambda run: any(abs(run - label) <= NEAR for label in labels)
        found = sum(any(abs(run - label) <= NEAR for run in alarms[labelled[0]]) for label in labels)
        elsewhere = sum(not near(run) for run in alarms[labelled[0]])
        lines.append(f"| {rule} | {found} of {len(labels)} | {elsewhere} | {sum(len(alarms[other]) for other in others)} | {later} |")
    lines += [
        "", "A rule that needs no later runs decides at once, one that needs some decides when they exist. The gate of osjitter is made "
        "for pairs of runs that are measured in turn; here, it compares the 30 runs before a run with the 30 from it on, although "
        "machine and program changed in between. `osjitter gate --baseline` cannot judge such series: it needs the rounds of a control.",
        "",
    ]
    (directory / "stored-series.md").write_text("\n".join(lines))
    print("\n".join(lines))
    index(name, [(f"`{name}`", "stored-series.md")], this_machine(), "`scripts/studies/stored-series.py`")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    series = read_series(sys.argv[2])
    write_results(sys.argv[1], series, judge(series))


main()
