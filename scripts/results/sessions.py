"""Stores recorded sessions as one Parquet file, with a row per round and all of its ticks.

The file also contains the reports without their rounds, so that the reports can be restored. Needs pyarrow; see
scripts/results/requirements.txt.
"""

import json

import pyarrow
import pyarrow.parquet

# The type of each column, in the order of the file. All other columns are fields of a round in the report.
TYPES = {
    "session": pyarrow.int16(),
    "subject": pyarrow.string(),
    "index": pyarrow.int32(),
    "slot": pyarrow.int32(),
    "instance": pyarrow.int16(),
    "start_ns": pyarrow.int64(),
    "phase_ns": pyarrow.int64(),
    "window_ns": pyarrow.int64(),
    "cpu_ns": pyarrow.int64(),
    "run_queue_ns": pyarrow.int64(),
    "steal_ns": pyarrow.int64(),
    "throttled_ns": pyarrow.int64(),
    "suspended_ns": pyarrow.int64(),
    "switches_voluntary": pyarrow.int64(),
    "switches_involuntary": pyarrow.int64(),
    "first_tick": pyarrow.int64(),
    "lateness_ns": pyarrow.list_(pyarrow.int32()),
}
HEADS = b"osjitter.reports"


def write_sessions(file, reports):
    """Writes the sessions of `reports`, which lose their rounds, histograms and all parts that are no column."""
    columns = {name: [] for name in TYPES}
    for session, report in enumerate(reports):
        for subject in report["subjects"]:
            subject.pop("histogram", None)
            for round_ in subject.pop("rounds"):
                row = {"session": session, "subject": subject["name"], **round_}
                for name, values in columns.items():
                    values.append(row.get(name))
    schema = pyarrow.schema(list(TYPES.items()), metadata={HEADS: json.dumps(reports, separators=(",", ":"))})
    # Splitting the bytes of the lateness by their position halves the file.
    pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), file, compression="zstd", compression_level=19,
                                use_dictionary=["subject"], column_encoding={"lateness_ns.list.element": "BYTE_STREAM_SPLIT"})


def read_sessions(file):
    """Returns the reports of a file, with their rounds."""
    table = pyarrow.parquet.read_table(file)
    reports = json.loads(table.schema.metadata[HEADS])
    subjects = {(session, subject["name"]): subject for session, report in enumerate(reports) for subject in report["subjects"]}
    for subject in subjects.values():
        subject["rounds"] = []
    for row in table.to_pylist():
        subjects[row.pop("session"), row.pop("subject")]["rounds"].append(row)
    return reports
