#!/usr/bin/env python3
"""Asks DuckDB about a directory of bins: python3 fleet.py LOGS [percentiles|outliers|within|ticks|rollup] [--label rack]

Needs the package duckdb. The questions are the .sql files beside this one; `rollup --out fleet.bins.csv` writes what they
can be asked of again."""
import argparse
import re
import sys
from pathlib import Path
from string import Template

import duckdb

HERE = Path(__file__).resolve().parent
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def limit_ns(text):
    found = re.fullmatch(r"(\d+)(ns|us|ms|s)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 500us or 1ms")
    return int(found[1]) * UNITS[found[2]]


def label_key(text):
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no key of a label")
    return text


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
        columns = "host subject period_ns runtime start labels ticks skipped missed early max_ns".split()
        intervals = "(SELECT " + ", ".join(f"NULL::VARCHAR AS {c}" for c in columns) + " WHERE false)"
    db = duckdb.connect()
    db.execute(Template((HERE / "open.duckdb.sql").read_text()).substitute(BINS=bins, INTERVALS=intervals, LABEL=label, LIMIT_NS=limit))
    return db


def question(name):
    return (HERE / f"{name}.sql").read_text()


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("logs", type=Path, help="a directory of bins, or one NAME.bins.csv")
    args.add_argument("question", nargs="?", default="percentiles", choices=["percentiles", "outliers", "within", "ticks", "rollup"])
    args.add_argument("--label", type=label_key, default="rack", help="the label to group by [default: rack]")
    args.add_argument("--limit", type=limit_ns, default="1ms", help="of the question within [default: 1ms]")
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
    table = [[d[0] for d in rows.description]] + [["" if v is None else f"{v:.4f}" if isinstance(v, float) else str(v) for v in row] for row in rows.fetchall()]
    widths = [max(map(len, column)) for column in zip(*table)]
    for row in table:
        print("  ".join(cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip())


if __name__ == "__main__":
    try:
        main()
    except duckdb.Error as e:
        sys.exit(f"error: {e}")
    except BrokenPipeError:
        sys.exit(0)
