#!/usr/bin/env python3
"""Asks DuckDB about a directory of bins: python3 fleet.py LOGS [percentiles|outliers|within|ticks|rollup] [--label rack]

Needs the package duckdb. The questions are the .sql files beside this one; `rollup --out fleet.bins.csv` writes what they
can be asked of again."""
import re
import sys
from pathlib import Path

import duckdb

from arguments import COLUMNS, parser, printed, question, statements


def source(where, kind):
    """The table function that reads one half of the pairs below a directory, or of one pair; None where there is none."""
    base = str(where) + "/**/*" if where.is_dir() else re.sub(r"\.bins\.(csv|csv\.gz|parquet)$", "", str(where))
    for ending, read in ((f".{kind}.parquet", "read_parquet({})"), (f".{kind}.csv*", "read_csv({}, header = true, all_varchar = true)")):
        pattern = (base + ending).replace("'", "''")
        if duckdb.execute("SELECT count(*) FROM glob(?)", [base + ending]).fetchone()[0]:
            return read.format(f"'{pattern}'")
    return None


def opened(where, label="rack", limit=1_000_000):
    """A database whose views are the bins and intervals of a directory."""
    bins, intervals = source(where, "bins"), source(where, "intervals")
    if bins is None:
        sys.exit(f"error: no *.bins.csv and no *.bins.parquet is in {where}; osjitter monitor --log and osjitter report --format bins write them")
    if intervals is None:
        # A roll-up has no rows of intervals.
        intervals = "(SELECT " + ", ".join(f"NULL::VARCHAR AS {c}" for c in COLUMNS["intervals"]) + " WHERE false)"
    db = duckdb.connect()
    for statement in statements("duckdb", BINS=bins, INTERVALS=intervals, LABEL=label, LIMIT_NS=limit):
        db.execute(statement)
    return db


def main():
    args = parser(__doc__, Path)
    args.add_argument("--out", type=Path, help="write here as CSV instead of a table")
    args = args.parse_args()
    if not args.logs.exists():
        sys.exit(f"error: there is no {args.logs}")
    db = opened(args.logs, args.label, args.limit)
    asked = question(args.question)
    if args.out:
        # Beside it first, and then in one step in its place.
        new = args.out.with_name(f".{args.out.name}.new")
        db.execute(f"COPY ({asked}) TO '{str(new).replace(chr(39), chr(39) * 2)}' (HEADER, DELIMITER ',', FORMAT CSV)")
        new.replace(args.out)
        return
    rows = db.execute(asked)
    printed([d[0] for d in rows.description], rows.fetchall())


if __name__ == "__main__":
    try:
        main()
    except duckdb.Error as e:
        sys.exit(f"error: {e}")
    except BrokenPipeError:
        sys.exit(0)
