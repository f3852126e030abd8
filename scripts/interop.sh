#!/usr/bin/env bash
# Reads what we write with programs that are not ours: a browser, the Python HdrHistogram, Prometheus itself, DuckDB, the
# notebook of docs/, and cyclictest's own output to compare with. Runs on a fresh Debian machine as root; installs what it needs.
# Argument: a directory for the screenshots.
set -euo pipefail
cd "$(dirname "$0")/.."
shots=${1:-$(mktemp -d)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

missing=()
for package in chromium fonts-dejavu-core python3 python3-venv rt-tests; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"
fi
python3 -m venv "$work/venv"
python=$work/venv/bin/python
"$python" -m pip install -q --disable-pip-version-check duckdb hdrhistogram ipykernel matplotlib nbclient \
  playwright prometheus-client

cargo test --locked --features parquet --bin osjitter parquet
cargo build --locked --features parquet
osjitter=target/debug/osjitter
"$osjitter" run --quiet --period 500us --ticks 2000 --subject tokio-interval --subject os-interval --subject nanosleep \
  --out "$work" >/dev/null
"$osjitter" run --quiet --no-samples --seed 1 --plan "$work/report.json" --out "$work/no-samples" >/dev/null
"$osjitter" run --quiet --ticks 400 --instances 3 --subject os-interval --out "$work/many" >/dev/null

made() { "$osjitter" report "$work/report.json" --format "$@"; }
made hlog --out "$work/run.hlog"
made openmetrics --out "$work/run.om"
made csv --out "$work/summary.csv"
made csv --samples --out "$work/samples.csv"
made parquet --out "$work/summary.parquet"
made parquet --samples --out "$work/samples.parquet"
made gab --out "$work/run.gab"
made bmf --out "$work/run.bmf"
made cyclictest-json --out "$work/run.cyclictest"
n=0
for id in $("$python" -c 'import json, sys; print(*(s["id"] for s in json.load(open(sys.argv[1]))["subjects"]))' "$work/report.json"); do
  made hgrm --subject "$id" --out "$work/$n.hgrm"
  n=$((n + 1))
done
# It wants real-time scheduling, which a container may not give: then there is nothing to compare with.
theirs=$work/cyclictest.json
cyclictest --quiet --duration 1 --interval 1000 --histogram 400 --json="$theirs" >/dev/null 2>&1 || theirs=
"$python" scripts/interop/formats.py "$work" ${theirs:+"$theirs"}
"$python" scripts/interop/notebook.py "$work/report.json" "$osjitter"

"$osjitter" report "$work/report.json" "$work/report.json" --format html --out "$work/two.html"
cp "$work/no-samples/report.html" "$work/no-samples.html"
python3 scripts/interop/big_report.py "$work/report.json" 10 100_000 >"$work/big.json"
"$osjitter" report "$work/big.json" --format html --out "$work/big.html"
"$python" scripts/interop/browser.py "$work" "$(command -v chromium)" "$shots"
bash scripts/interop/fleet.sh "$osjitter"
bash scripts/interop/prometheus.sh "$osjitter"
echo "screenshots in $shots"
