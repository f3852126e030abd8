#!/usr/bin/env python3
"""The same on Spark, for more than one machine holds: spark-submit spark.py LOGS [percentiles|outliers|within|ticks|rollup]

LOGS is a directory on whatever Spark reads: a path, s3a://…, hdfs://…; CSV, packed or not, is found below it at any depth.
A cluster needs no more than pyspark 4 where this is submitted: spark-submit --master spark://… --py-files arguments.py spark.py
s3a://logs. The answers are added up on the cluster, and are small: they are printed, or written, where this runs."""
import csv
import re
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from arguments import COLUMNS, parser, printed, question, statements


def opened(spark, where, label="rack", limit=1_000_000):
    """The views of the questions, in this session."""
    # The questions quote names as the standard does.
    for option in ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers"):
        spark.conf.set(option, "true")
    one = re.fullmatch(r"(.*)\.bins\.csv(\.gz)?", str(where))
    for kind, columns in COLUMNS.items():
        read = spark.read.schema(", ".join(f"`{column}` STRING" for column in columns))
        read = read.option("header", "true").option("enforceSchema", "false")
        if one is None:
            files = read.option("recursiveFileLookup", "true").option("pathGlobFilter", f"*.{kind}.csv*").csv(str(where))
        elif kind == "bins":
            files = read.csv(str(where))
        else:
            # Of one file, the other half may be gone: a roll-up has none.
            files = read.option("pathGlobFilter", Path(f"{one[1]}.{kind}.csv*").name).csv(one[1].rpartition("/")[0] or ".")
        files.createOrReplaceTempView(f"{kind}_files")
    for statement in statements("spark", BINS="bins_files", INTERVALS="intervals_files", LABEL=label, LIMIT_NS=limit):
        spark.sql(statement)
    if spark.table("bins_files").isEmpty():
        sys.exit(f"error: no *.bins.csv is in {where}; osjitter monitor --log and osjitter report --format bins write them")
    return spark


def main():
    args = parser(__doc__, str)
    args.add_argument("--out", type=Path, help="write here as CSV instead of a table")
    args = args.parse_args()
    spark = opened(SparkSession.builder.appName("osjitter fleet").getOrCreate(), args.logs, args.label, args.limit)
    answer = spark.sql(question(args.question))
    if not args.out:
        printed(answer.columns, map(tuple, answer.collect()))
        return
    # Beside it first, and then in one step in its place.
    new = args.out.with_name(f".{args.out.name}.new")
    with open(new, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(map(tuple, answer.toLocalIterator()))
    new.replace(args.out)


if __name__ == "__main__":
    try:
        main()
    except PySparkException as e:
        sys.exit(f"error: {str(e).splitlines()[0]}")
    except BrokenPipeError:
        sys.exit(0)
