#!/usr/bin/env bash
# Reads what we write with programs that are not ours: a browser, the Python HdrHistogram, Prometheus's parser.
# Runs on a fresh Debian machine as root; installs what it needs. Argument: a directory for the screenshots.
set -euo pipefail
cd "$(dirname "$0")/.."
shots=${1:-$(mktemp -d)}
mkdir -p "$shots"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

missing=()
for package in chromium python3 python3-venv; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"
fi
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q hdrhistogram prometheus-client

cargo build --release --locked
osjitter=target/release/osjitter
"$osjitter" run --quiet --period 500us --ticks 2000 --subject tokio-interval --subject os-interval --subject nanosleep \
  --out "$work/run" >/dev/null
report=$work/run/report.json
"$osjitter" report "$report" --format hlog --out "$work/run.hlog"
"$osjitter" report "$report" --format openmetrics --out "$work/run.om"

"$work/venv/bin/python" - "$report" "$work/run.hlog" "$work/run.om" <<'PY'
import json, sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from prometheus_client.openmetrics.parser import text_string_to_metric_families

report = json.load(open(sys.argv[1]))
for subject in report["subjects"]:
    whole = HdrHistogram(1, 2**62, 3)
    log = HistogramLogReader(sys.argv[2], HdrHistogram(1, 2**62, 3))
    while (interval := log.get_next_interval_histogram()) is not None:
        if interval.get_tag() == subject["id"]:
            whole.add(interval)
    late = sorted(v for r in subject["rounds"] for v in r["lateness_ns"])
    assert whole.get_total_count() == len(late) > 0, (subject["id"], whole.get_total_count(), len(late))
    for q in (50, 90, 99):
        exact = late[max(0, -(-q * len(late) // 100) - 1)]
        read = whole.get_value_at_percentile(q)
        assert abs(read - exact) <= max(2, exact / 500), (subject["id"], q, exact, read)
print("hlog: the Python HdrHistogram reads every tick")

metrics = {m.name: m for m in text_string_to_metric_families(open(sys.argv[3]).read())}
ticks = {s.labels["id"]: s.value for s in metrics["osjitter_ticks"].samples}
assert ticks == {s["id"]: s["summary"]["ticks"] for s in report["subjects"]}, ticks
print("openmetrics: Prometheus's own parser reads it")
PY

page=file://$work/run/report.html
browser() {
  timeout 60 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr \
    --virtual-time-budget=5000 "$@" 2>"$work/log"
  if grep -E 'CONSOLE|Uncaught' "$work/log"; then
    echo "the page wrote to the console" >&2
    exit 1
  fi
}
browser --window-size=1100,4200 --dump-dom "$page" >"$work/all.html"
grep -q 'data-ready="yes"' "$work/all.html"
# A link to a view in which one subject is off: its strip over time is gone, its switch is not set.
browser --window-size=1100,4200 --dump-dom "$page#off=tokio-interval%40500us%2Fcurrent-thread" >"$work/less.html"
strips() { grep -o 'class="time"' "$1" | wc -l; }
[ "$(strips "$work/all.html")" = 3 ] && [ "$(strips "$work/less.html")" = 2 ]
for theme in light dark; do
  browser --window-size=1100,4200 --screenshot="$shots/$theme.png" "$page#theme=$theme"
done
browser --window-size=500,5200 --screenshot="$shots/narrow.png" "$page"
echo "report.html: opens without a console message, links restore a view; screenshots in $shots"
