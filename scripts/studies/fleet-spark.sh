#!/usr/bin/env bash
# Runs the queries of deploy/fleet on a Spark cluster of two workers, to check that it gives the same results as DuckDB and DataFusion.
#
#   scripts/studies/fleet-spark.sh [NAME]     with NAME, keeps the output in results/NAME/fleet.txt
#
# All engines read the same 200 hosts, and all results must be equal. Needs Java 17 or later, and Python. pyspark (450 MB) is
# downloaded unless FLEET_PYTHON names a Python that has it.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --locked
python=${FLEET_PYTHON:-$work/venv/bin/python}
if [ -z "${FLEET_PYTHON:-}" ]; then
  python3 -m venv "$work/venv"
  "$python" -m pip install -q --disable-pip-version-check duckdb datafusion pyarrow 'pyspark>=4,<5'
fi
# By default, workers use an address that may not be reachable from the same machine.
export SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost
SPARK_HOME=$("$python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
export SPARK_HOME
mkdir "$work/fleet"
{
  "$python" -c 'import pyspark, duckdb, datafusion
print(f"Spark {pyspark.__version__} (local-cluster of 2 workers), DuckDB {duckdb.__version__}, DataFusion {datafusion.__version__}")'
  "$python" scripts/ci/interop/fleet.py "$work/fleet" target/debug/osjitter spark 2>"$work/log" || {
    tail -n 40 "$work/log" >&2
    exit 1
  }
  # The runner for Spark must print the same tables as the runner for DuckDB.
  for question in percentiles outliers within ticks; do
    cmp <("$python" deploy/fleet/spark.py "$work/fleet/logs" $question 2>"$work/log") <("$python" deploy/fleet/fleet.py "$work/fleet/logs" $question)
  done
  "$python" deploy/fleet/spark.py "$work/fleet/logs" rollup --out "$work/year.bins.csv" 2>"$work/log"
  # Unlike Spark, DuckDB quotes empty texts.
  cmp "$work/year.bins.csv" <(sed 's/""//g' "$work/fleet/runner/fleet.bins.csv")
  cmp <("$python" deploy/fleet/spark.py "$work/year.bins.csv" 2>"$work/log") <("$python" deploy/fleet/fleet.py "$work/year.bins.csv")
  echo "both runners print the same table for every query, write the same roll-up, and read it"
} | tee "$work/fleet.txt"
[ -z "${1-}" ] || { mkdir -p "results/$1" && cp "$work/fleet.txt" "results/$1/"; }
