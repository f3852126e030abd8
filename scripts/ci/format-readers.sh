#!/usr/bin/env bash
# Readers of other projects must accept our files and find the values of the report in them.
set -euo pipefail
cd "$(dirname "$0")/../.."
# With --parquet, the program is built with Parquet, and DuckDB and the notebook in docs/ read that format as well.
. scripts/ci/common.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packages=(duckdb hdrhistogram prometheus-client)
if [ "${1-}" = --parquet ]; then
  packages+=(ipykernel matplotlib nbclient)
  cargo test --locked --package osjitter-interop --features parquet --lib parquet
  cargo build --locked --features parquet
  osjitter=target/debug/osjitter
else
  cargo build --release --locked
  osjitter=target/release/osjitter
fi
install_packages rt-tests
make_python "$work/venv" "${packages[@]}"
python=$work/venv/bin/python

"$osjitter" run --quiet --period 500us --ticks 2000 --subject tokio-interval --subject os-interval --subject nanosleep \
  --out "$work" >/dev/null
write() { "$osjitter" report "$work/report.json" --format "$@"; }
write hlog --out "$work/run.hlog"
write openmetrics --out "$work/run.om"
write csv --out "$work/summary.csv"
write csv --samples --out "$work/samples.csv"
write gab --out "$work/run.gab"
write bmf --out "$work/run.bmf"
write cyclictest-json --out "$work/run.cyclictest"
if [ "${1-}" = --parquet ]; then
  write parquet --out "$work/summary.parquet"
  write parquet --samples --out "$work/samples.parquet"
fi
n=0
for id in $("$python" -c 'import json, sys; print(*(s["id"] for s in json.load(open(sys.argv[1]))["subjects"]))' "$work/report.json"); do
  write hgrm --subject "$id" --out "$work/$n.hgrm"
  n=$((n + 1))
done
# cyclictest needs real-time scheduling, which a container may forbid. The comparison with it is then skipped.
reference=$work/cyclictest.json
cyclictest --quiet --duration 1 --interval 1000 --histogram 400 --json="$reference" >/dev/null 2>&1 || reference=
# The Java reader defines the format of interval logs. Where there is no Java, the comparison with it is skipped.
if command -v javac >/dev/null; then
  install_packages libhdrhistogram-java
  java -cp /usr/share/java/hdrhistogram.jar scripts/studies/formats/ReadLogs.java "$work/run.hlog" >"$work/java.json"
fi
"$python" scripts/ci/interop/formats.py "$work" ${reference:+"$reference"}
[ "${1-}" != --parquet ] || "$python" scripts/ci/interop/notebook.py "$work/report.json" "$osjitter"
