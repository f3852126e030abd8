#!/usr/bin/env python3
"""Queries a directory of bins with DuckDB: python3 fleet.py LOGS [percentiles|outliers|within|ticks|rollup] [--label rack]

Needs the package duckdb. The questions are the .sql files in this directory. `rollup --out fleet.bins.csv` writes a smaller
file of bins, which can be queried in the same way."""
import re
import sys
from pathlib import Path

import duckdb

from arguments import COLUMNS, make_parser, print_table, read_question, read_statements


def table_function(where, kind):
    """Returns the table function that reads the files of a kind below a directory or next to one file; None if there are none."""
    base = str(where) + "/**/*" if where.is_dir() else re.sub(r"\.bins\.(csv|csv\.gz|parquet)$", "", str(where))
    for ending, read in ((f".{kind}.parquet", "read_parquet({})"), (f".{kind}.csv*", "read_csv({}, header = true, all_varchar = true)")):
        pattern = (base + ending).replace("'", "''")
        if duckdb.execute("SELECT count(*) FROM glob(?)", [base + ending]).fetchone()[0]:
            return read.format(f"'{pattern}'")
    return None


def open_database(where, label="rack", limit=1_000_000):
    """Returns a database with views of the bins and intervals of a directory."""
    bins, intervals = table_function(where, "bins"), table_function(where, "intervals")
    if bins is None:
        sys.exit(f"error: {where} contains no *.bins.csv or *.bins.parquet; write some with osjitter monitor --log or osjitter report --format bins")
    if intervals is None:
        # A roll-up has no intervals.
        intervals = "(SELECT " + ", ".join(f"NULL::VARCHAR AS {c}" for c in COLUMNS["intervals"]) + " WHERE false)"
    db = duckdb.connect()
    for statement in read_statements("duckdb", BINS=bins, INTERVALS=intervals, LABEL=label, LIMIT_NS=limit):
        db.execute(statement)
    return db


def main():
    args = make_parser(__doc__, Path)
    args.add_argument("--out", type=Path, help="write CSV to this file instead of printing a table")
    args = args.parse_args()
    if not args.logs.exists():
        sys.exit(f"error: {args.logs} does not exist")
    db = open_database(args.logs, args.label, args.limit)
    query = read_question(args.question)
    if args.out:
        # Write a temporary file first, so that the output appears in one step.
        temporary = args.out.with_name(f".{args.out.name}.new")
        db.execute(f"COPY ({query}) TO '{str(temporary).replace(chr(39), chr(39) * 2)}' (HEADER, DELIMITER ',', FORMAT CSV)")
        temporary.replace(args.out)
        return
    rows = db.execute(query)
    print_table([d[0] for d in rows.description], rows.fetchall())


if __name__ == "__main__":
    try:
        main()
    except duckdb.Error as e:
        sys.exit(f"error: {e}")
    except BrokenPipeError:
        sys.exit(0)
