#!/usr/bin/env bash
# Measures tickers at six periods on this machine for results/NAME, and puts a table of each into the book.
#
#   scripts/periods-run.sh NAME             measure into results/NAME, then as below
#   scripts/periods-run.sh --tables NAME    only the tables, from results/NAME/report.json.gz
set -euo pipefail
cd "$(dirname "$0")/.."
measure=true
if [ "${1:-}" = --tables ]; then measure=false; shift; fi
name=${1:?"which directory below results/?"}
directory=results/$name

if $measure; then
  cargo build --release --locked
  target/release/osjitter run --out "$directory" --no-samples --duration 5s \
    --period 50us --period 100us --period 250us --period 1ms --period 2ms --period 10ms \
    --subject os-interval --subject os-interval-precise --subject periodic-interval \
    --subject tokio-interval --subject tokio-busy \
    --subject busypoll-interval --subject busypoll-parked --subject busypoll-io-uring \
    --subject nanosleep --subject io-uring-wait --subject spin >/dev/null
  # Six periods of eleven subjects: 8 MB.
  gzip -9 -n -f "$directory/report.json"
  rm "$directory/report.html"
fi

PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1 python3 - "$directory" <<'PY'
import gzip, json, pathlib, sys
from published import index, machine, put
directory = pathlib.Path(sys.argv[1])
report = json.loads(gzip.decompress((directory / "report.json.gz").read_bytes()))
subjects = report["subjects"]
periods = sorted({s["period_ns"] for s in subjects})
names = list(dict.fromkeys(s["name"] for s in subjects))

def time(ns):
    return f"{ns} ns" if ns < 1_000 else f"{ns / 1e3:.3g} us" if ns < 1_000_000 else f"{ns / 1e6:.3g} ms"

def table(cell):
    lines = ["| | " + " | ".join(time(p) for p in periods) + " |", "|---|" + "---:|" * len(periods)]
    for name in names:
        of = {s["period_ns"]: s["summary"] for s in subjects if s["name"] == name and s["summary"]}
        lines.append(f"| `{name}` | " + " | ".join(cell(of[p], p) if p in of else "-" for p in periods) + " |")
    return "\n".join(lines)

late = lambda q: table(lambda s, _: time(s["lateness_ns"][q]))
put("periods", f"""Lateness at the median, by period:

{late('p50')}

at the 99th percentile:

{late('p99')}

and what it takes of one core:

{table(lambda s, p: f"{100 * s['cpu_ns_per_tick'] / p:.3g} %")}

Five seconds of each, in rounds that follow each other in a new order each time. From
[`report.json.gz`](results/{directory.name}/report.json.gz): {machine(report['host'])}, {report['started_utc'][:10]}.""")
index(directory.name, [(f"`{directory.name}`", "report.json.gz")], report["host"], "`scripts/periods-run.sh`")
PY
