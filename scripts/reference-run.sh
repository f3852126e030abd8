#!/usr/bin/env bash
# Measures this machine for results/, and puts the run into the README: the table and the picture come from the report,
# never from a keyboard.
#
#   scripts/reference-run.sh NAME      measure into results/NAME, then as below
#   scripts/reference-run.sh --readme NAME    only the pictures and the README, from results/NAME/report.json
set -euo pipefail
cd "$(dirname "$0")/.."

measure=true
if [ "${1:-}" = --readme ]; then measure=false; shift; fi
name=${1:?"which directory below results/?"}
directory=results/$name

cargo build --release --locked
if $measure; then
  # What a run takes by itself, the group, and our sleeps and timeouts.
  target/release/osjitter run --period 500us --ticks 10000 --out "$directory" \
    --subject os-interval --subject os-interval-precise --subject os-interval-group --subject periodic-interval \
    --subject os-sleep --subject os-timeout \
    --subject tokio-interval --subject tokio-sleep-reused --subject tokio-timeout --subject nanosleep --subject spin
fi

table=$(mktemp)
trap 'rm -f "$table"' EXIT
target/release/osjitter report "$directory/report.json" --format svg --out "$directory"
target/release/osjitter report "$directory/report.json" --format html --out "$directory/report.html"
target/release/osjitter report "$directory/report.json" --out "$table"

PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1 python3 - "$directory" "$table" <<'PY'
import json, sys
from published import index, machine, put
directory, table = sys.argv[1], open(sys.argv[2]).read()
report = json.load(open(f"{directory}/report.json"))
put("reference run", f"""![Lateness against its price]({directory}/tradeoff.svg)

```text
{table.rstrip()}
```

From [`{directory}/report.json`]({directory}/report.json): {machine(report["host"])}, {report['started_utc'][:10]}. Beside it
[`report.html`]({directory}/report.html), to be downloaded and opened, and the other pictures, such as
[lateness by percentile]({directory}/percentiles.svg).""")
name = directory.split("/")[-1]
SHOWN = {"os-interval": "`OsInterval`", "os-interval-precise": "`OsInterval`, precise", "periodic-interval": "`PeriodicInterval`",
         "os-interval-group": "`IntervalGroup`", "tokio-interval": "`tokio::time::Interval`"}
of = {s["name"]: s["summary"] for s in report["subjects"]}
def time(ns):
    return f"{ns} ns" if ns < 1_000 else f"{ns / 1e3:.3g} us" if ns < 999_500 else f"{ns / 1e6:.3g} ms"
def row(subject):
    late, cpu = of[subject]["lateness_ns"], of[subject]["cpu_ns_per_tick"]
    return f"| {SHOWN[subject]} | {time(late['p50'])} late | {time(late['p99'])} | {cpu / 1e3:.1f} us |"
put("interval figures", """At a period of 500 us, on a current-thread runtime:

| | p50 | p99 | CPU per tick |
|---|---:|---:|---:|
""" + "\n".join(map(row, SHOWN)) + f"""

{machine(report['host'])}; from [`report.json`](results/{name}/report.json). System calls per tick, crowds of intervals and the
precise mode beside other crates: [`peers-osinterval.md`](results/{name}/peers-osinterval.md). `osjitter run` measures it on
your machine.""")
index(name, [(f"`{name}`", "report.json"), ("page", "report.html")], report["host"],
      "`osjitter run --period 500us --ticks 10000`, the group, `os-sleep` and `os-timeout`")
PY
