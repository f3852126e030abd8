#!/usr/bin/env bash
# Asks a Spark cluster of two workers on this machine what DuckDB and DataFusion are asked, about the same 200 hosts; all answers
# must be equal. Needs Java 17 or later, and Python, which fetches pyspark (450 MB) unless FLEET_PYTHON names one that has it.
#
#   scripts/fleet-spark.sh [NAME]     keeps what it prints in results/NAME/fleet.txt where a name is given
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --locked
python=${FLEET_PYTHON:-$work/venv/bin/python}
if [ -z "${FLEET_PYTHON:-}" ]; then
  python3 -m venv "$work/venv"
  "$python" -m pip install -q --disable-pip-version-check duckdb datafusion pyarrow 'pyspark>=4,<5'
fi
# The workers are found by their address, which need not be one that this machine can reach itself by.
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
  # The runner, as a stranger runs it, beside that of DuckDB.
  for asked in percentiles outliers within ticks; do
    cmp <("$python" deploy/fleet/spark.py "$work/fleet/logs" $asked 2>"$work/log") <("$python" deploy/fleet/fleet.py "$work/fleet/logs" $asked)
  done
  "$python" deploy/fleet/spark.py "$work/fleet/logs" rollup --out "$work/year.bins.csv" 2>"$work/log"
  # DuckDB writes a text that is empty in quotes.
  cmp "$work/year.bins.csv" <(sed 's/""//g' "$work/fleet/runner/fleet.bins.csv")
  cmp <("$python" deploy/fleet/spark.py "$work/year.bins.csv" 2>"$work/log") <("$python" deploy/fleet/fleet.py "$work/year.bins.csv")
  echo "both runners print the same of every question, write the same roll-up, and read it"
} | tee "$work/fleet.txt"
[ -z "${1-}" ] || { mkdir -p "results/$1" && cp "$work/fleet.txt" "results/$1/"; }
