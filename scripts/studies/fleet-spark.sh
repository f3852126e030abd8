#!/usr/bin/env bash
# Asks a Spark cluster of two workers the questions of deploy/fleet, to check that it answers as DuckDB and DataFusion do.
#
#   scripts/studies/fleet-spark.sh [NAME]     with NAME, keeps the output in results/NAME/fleet.txt
#
# All engines read the same 200 hosts, and all answers must be equal. Needs Java 17 or later, and Python, which fetches pyspark
# (450 MB) unless FLEET_PYTHON names one that has it.
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
# By default, workers use an address under which the machine may be unable to reach itself.
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
  # The runner for users, compared with that of DuckDB.
  for question in percentiles outliers within ticks; do
    cmp <("$python" deploy/fleet/spark.py "$work/fleet/logs" $question 2>"$work/log") <("$python" deploy/fleet/fleet.py "$work/fleet/logs" $question)
  done
  "$python" deploy/fleet/spark.py "$work/fleet/logs" rollup --out "$work/year.bins.csv" 2>"$work/log"
  # DuckDB quotes empty texts.
  cmp "$work/year.bins.csv" <(sed 's/""//g' "$work/fleet/runner/fleet.bins.csv")
  cmp <("$python" deploy/fleet/spark.py "$work/year.bins.csv" 2>"$work/log") <("$python" deploy/fleet/fleet.py "$work/year.bins.csv")
  echo "both runners print the same of every question, write the same roll-up, and read it"
} | tee "$work/fleet.txt"
[ -z "${1-}" ] || { mkdir -p "results/$1" && cp "$work/fleet.txt" "results/$1/"; }
