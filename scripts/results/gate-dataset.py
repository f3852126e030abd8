#!/usr/bin/env python3
"""Writes results/gate-dataset from the committed verdicts of the campaigns and the committed sessions of the league.

    scripts/results/gate-dataset.py

The README of the data set describes its tables. Needs pyarrow; see scripts/results/requirements.txt.
"""

import gzip
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile

import pyarrow
import pyarrow.compute
import pyarrow.parquet

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import pages  # noqa: E402

# Raise this if a column or a row changes.
VERSION = "1.0.0"
CAMPAIGNS = ["2026-11-22-epyc-kvm-2cpu-gate-busy", "2026-11-23-epyc-kvm-2cpu-gate", "2026-11-23-epyc-kvm-2cpu-gate-quiet"]
# The last commit that contains the verdicts of the campaigns: the pairs in them are in the data set.
VERDICTS_COMMIT = "4702034a259de13876e68c4d6d5c799ccc6aad0c"
SESSIONS = "2026-11-23-epyc-kvm-2cpu-league"
DIRECTORY = pages.ROOT / "results/gate-dataset"

GATES = {
    "gate": (pyarrow.int32(), "number of the gate"),
    "campaign": (pyarrow.string(), "its run below `results/`, which has the machine and all verdicts in short"),
    "case": (pyarrow.string(), "what was compared; a name of `CASES` in `scripts/studies/gate-campaign.py`"),
    "is_slower": (pyarrow.bool_(), "the label: whether the candidate was made slower"),
    "change": (pyarrow.string(), "the change in words"),
    "metric": (pyarrow.string(), "`p50` or `p99` of the lateness of a round, or `wall`, the duration of a run"),
    "started_utc": (pyarrow.string(), "start of the gate"),
    "duration_ns": (pyarrow.int64(), "duration of the gate"),
    "cpu": (pyarrow.int32(), "the CPU that all rounds were bound to"),
    "mode": (pyarrow.string(), "`interleaved` (alternately, in random order), `duet` (both at once) or `runs` (one process each)"),
    "verdict": (pyarrow.string(), "verdict of osjitter on this metric"),
    "reason": (pyarrow.string(), "reason of an inconclusive verdict"),
    "ratio": (pyarrow.float64(), "candidate divided by base, as osjitter estimated it"),
    "ratio_low": (pyarrow.float64(), "lower end of its interval"),
    "ratio_high": (pyarrow.float64(), "upper end of its interval"),
}
PAIRS = {
    "gate": (pyarrow.int32(), "number of the gate"),
    "metric": (pyarrow.string(), "as in the table of gates"),
    "pair": (pyarrow.int32(), "number of the pair in the gate; the gate stopped after the last one"),
    "base_ns": (pyarrow.float64(), "value of the base"),
    "candidate_ns": (pyarrow.float64(), "value of the candidate"),
    "base_without_stalls_ns": (pyarrow.float64(), "the same without ticks of a stall that an earlier tick already shows; null for `wall`"),
    "candidate_without_stalls_ns": (pyarrow.float64(), "the same of the candidate"),
}


def load_cases():
    spec = importlib.util.spec_from_file_location("campaign", pages.ROOT / "scripts/studies/gate-campaign.py")
    campaign = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(campaign)
    return campaign.CASES


def verdicts(campaign):
    """Yields the case and verdict of each gate that compared two programs with each other."""
    file = f"results/{campaign}/verdicts.tar.xz"
    if (pages.ROOT / file).exists():
        content = (pages.ROOT / file).read_bytes()
    else:
        show = ["git", "show", f"{VERDICTS_COMMIT}:{file}"]
        content = subprocess.run(show, cwd=pages.ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            verdict = json.load(archive.extractfile(member))
            # Gates by stored sessions compare each side with a control and not with the other side.
            if verdict["failure"] is None and verdict["baseline"] is None:
                yield pathlib.Path(member.name).stem[:-4], verdict


def pair_values(judged, number):
    """Returns the values of a metric: base, candidate, and both without repeated stalls."""
    if "rounds" not in judged:
        return [(a, b, None, None) for a, b in judged["metrics"][number]["values"]]
    sides = ("a_ns", "b_ns", "a_own_ns", "b_own_ns")
    return [tuple(pair[side][number] for side in sides) for pair in judged["rounds"]]


def collect():
    cases, gates, pairs = load_cases(), [], []
    number = 0
    for campaign in CAMPAIGNS:
        for case, verdict in verdicts(campaign):
            [judged] = verdict["comparisons"] or [verdict["runs"]]
            _, change, correct, _ = cases[case]
            for k, metric in enumerate(judged["metrics"]):
                low, high = metric["ratio_interval"] or (None, None)
                gates.append((number, campaign, case, correct == "regressed", change, metric["name"], verdict["started_utc"],
                              verdict["duration_ns"], judged.get("plan", judged)["cpu"], judged.get("mode", "runs"),
                              metric["verdict"], metric["reason"], metric["ratio"], low, high))
                values = enumerate(pair_values(judged, k))
                pairs += [(number, metric["name"], pair, *sides) for pair, sides in values]
            number += 1
    return gates, pairs


def write_table(name, columns, rows):
    schema = pyarrow.schema([(column, type_) for column, (type_, _) in columns.items()])
    table = pyarrow.table([list(values) for values in zip(*rows)], schema=schema)
    write_compressed(table, DIRECTORY / name)


def write_compressed(table, file):
    """Writes a table. Splitting the bytes of numbers by their position halves a file."""
    texts = [field.name for field in table.schema if pyarrow.types.is_string(field.type)]
    numbers = [field.name for field in table.schema if pyarrow.types.is_floating(field.type) or pyarrow.types.is_integer(field.type)]
    pyarrow.parquet.write_table(table, file, compression="zstd", compression_level=22, use_dictionary=texts,
                                column_encoding={name: "BYTE_STREAM_SPLIT" for name in numbers})


def read_host():
    return json.loads(gzip.decompress((pages.ROOT / "results" / CAMPAIGNS[-1] / "gate-campaign.json.gz").read_bytes()))["host"]


def describe(columns):
    return ["| Column | Type | Meaning |", "|---|---|---|",
            *(f"| `{name}` | {type_} | {meaning} |" for name, (type_, meaning) in columns.items())]


def readme(gates, pairs, sessions):
    count = len({row[0] for row in gates})
    slower = len({row[0] for row in gates if row[3]})
    reports = json.loads(sessions.schema.metadata[b"osjitter.reports"])
    ticks = pyarrow.compute.sum(pyarrow.compute.list_value_length(sessions["lateness_ns"])).as_py()
    return "\n".join([
        "# Paired rounds with known answers",
        "",
        f"Version {VERSION}. A labelled data set for judging rules that decide whether a program became slower: {count} real gates "
        f"with {len(pairs):,} pairs, of which {slower} gates compared a program with a version of it that was made slower by a known "
        f"amount, and {count - slower} compared a program with itself. It also has {len(reports)} sessions with {ticks:,} recorded "
        "ticks of three periodic loops that ran alternately, to which a study can add changes of its own.",
        "",
        f"All of it was measured on one shared virtual machine ({pages.machine(read_host())}), sometimes busy and sometimes quiet. "
        "It shows how rules behave with the noise of such a machine, and not how they behave on dedicated hardware.",
        "",
        "The licences are those of osjitter: MIT or Apache-2.0. `SHA256SUMS` has the checksums. `scripts/results/gate-dataset.py` "
        "writes the data set from the verdicts that osjitter itself wrote during the campaigns, which are in the history of the repository.",
        "",
        "## `gates.parquet`: one row per gate and metric",
        "",
        *describe(GATES),
        "",
        "## `pairs.parquet`: one row per pair of rounds and metric",
        "",
        *describe(PAIRS),
        "",
        "A round is 250 ticks of 500 µs unless the case says otherwise; the round of `wall` is one run of the program. A gate stops "
        "as soon as it can decide, so changes that are easy to see have fewer pairs. Do not judge rules by the number of pairs. "
        "A change of the tail moves `p99` and not `p50`.",
        "",
        f"## [`sessions.parquet`](../{SESSIONS}/sessions.parquet): one row per round of the sessions",
        "",
        "The columns are the fields of a round in a report (see the book, \"The report\"): `lateness_ns` has the lateness of every tick "
        "in nanoseconds, `first_tick` the number of the first one, and `slot` the position of the round in its session. The reports "
        "without their rounds are in the metadata of the file, as `osjitter.reports`.",
        "",
        "## How to read it",
        "",
        "```python",
        "import pandas",
        "",
        'gates = pandas.read_parquet("gates.parquet")',
        'pairs = pandas.read_parquet("pairs.parquet")',
        'p50 = pairs[pairs.metric == "p50"]',
        "median_ratio = (p50.candidate_ns / p50.base_ns).groupby(p50.gate).median()",
        "```",
        "",
    ])


def main():
    DIRECTORY.mkdir(exist_ok=True)
    gates, pairs = collect()
    write_table("gates.parquet", GATES, gates)
    write_table("pairs.parquet", PAIRS, pairs)
    sessions = pages.ROOT / "results" / SESSIONS / "sessions.parquet"
    (DIRECTORY / "README.md").write_text(readme(gates, pairs, pyarrow.parquet.read_table(sessions)))
    files = [DIRECTORY / "gates.parquet", DIRECTORY / "pairs.parquet", sessions]
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {os.path.relpath(file, DIRECTORY)}" for file in files]
    (DIRECTORY / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    pages.index(DIRECTORY.name, [(f"`{DIRECTORY.name}`", "README.md")], read_host(), "`scripts/results/gate-dataset.py`")


if __name__ == "__main__":
    main()
