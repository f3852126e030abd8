#!/usr/bin/env python3
"""Queries a directory of bins with Spark, if it is too large for one machine:
spark-submit spark.py LOGS [percentiles|outliers|within|ticks|rollup]

LOGS is a directory on any file system that Spark reads, for example a path, s3a://… or hdfs://…. The runner finds CSV files,
compressed or not, at any depth. Only the machine that submits needs pyspark 4: spark-submit --master spark://…
--py-files arguments.py spark.py s3a://logs. The cluster computes the results; this machine prints or writes them."""
import csv
import re
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from arguments import COLUMNS, make_parser, print_table, read_question, read_statements


def create_views(spark, where, label="rack", limit=1_000_000):
    """Creates the views of the bins and intervals in a session, and returns the session."""
    # The queries quote names in the standard way.
    for option in ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers"):
        spark.conf.set(option, "true")
    single_file = re.fullmatch(r"(.*)\.bins\.csv(\.gz)?", str(where))
    for kind, columns in COLUMNS.items():
        read = spark.read.schema(", ".join(f"`{column}` STRING" for column in columns))
        read = read.option("header", "true").option("enforceSchema", "false")
        if single_file is None:
            files = read.option("recursiveFileLookup", "true").option("pathGlobFilter", f"*.{kind}.csv*").csv(str(where))
        elif kind == "bins":
            files = read.csv(str(where))
        else:
            # The intervals of a single file may be missing: a roll-up has none.
            files = read.option("pathGlobFilter", Path(f"{single_file[1]}.{kind}.csv*").name).csv(single_file[1].rpartition("/")[0] or ".")
        files.createOrReplaceTempView(f"{kind}_files")
    for statement in read_statements("spark", BINS="bins_files", INTERVALS="intervals_files", LABEL=label, LIMIT_NS=limit):
        spark.sql(statement)
    if spark.table("bins_files").isEmpty():
        sys.exit(f"error: {where} contains no *.bins.csv; write some with osjitter monitor --log or osjitter report --format bins")
    return spark


def main():
    args = make_parser(__doc__, str)
    args.add_argument("--out", type=Path, help="write CSV to this file instead of printing a table")
    args = args.parse_args()
    spark = create_views(SparkSession.builder.appName("osjitter fleet").getOrCreate(), args.logs, args.label, args.limit)
    result = spark.sql(read_question(args.question))
    if not args.out:
        print_table(result.columns, map(tuple, result.collect()))
        return
    # Write a temporary file first, so that the output appears in one step.
    temporary = args.out.with_name(f".{args.out.name}.new")
    with open(temporary, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(map(tuple, result.toLocalIterator()))
    temporary.replace(args.out)


if __name__ == "__main__":
    try:
        main()
    except PySparkException as e:
        sys.exit(f"error: {str(e).splitlines()[0]}")
    except BrokenPipeError:
        sys.exit(0)
