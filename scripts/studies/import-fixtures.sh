#!/usr/bin/env bash
# Creates the fixtures of tests/it/import.rs with the tools whose files osjitter imports. Last run: 2026-11-21.
#
# Runs rt-tests and jitterdebugger of Debian, which need root, and the Python HdrHistogram, on a fresh Debian machine. The name of the
# machine, its kernel release and build are replaced; all other values are unchanged.
set -euo pipefail
cd "$(dirname "$0")/../.."
fixtures=$PWD/tests/fixtures
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

missing=()
for package in rt-tests jitterdebugger python3 python3-venv; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"
fi
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q hdrhistogram

cd "$work"
cyclictest -q -D 1 -i 1000 -t 2 -h 400 --json=cyclictest.json >log
cyclictest -q -D 1 -i 10000 -N -h 400000 --json=cyclictest-ns.json >log
cyclictest -q -D 1 -i 10000 --json=cyclictest-no-bins.json >log
oslat -D 1 -c 0,1 --json=oslat.json >log
jitterdebugger -D 1s -o jd >log 2>&1
cp jd/results.json jitterdebugger.json
# Each interval has two distributions, like the log of a load generator with two kinds of requests. This implementation cannot
# write tags, so the tag of the second distribution is written before its lines.
"$work/venv/bin/python" - <<'PY'
import random
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

random.seed(7)
with open("python.hlog", "w") as out:
    log = HistogramLogWriter(out)
    log.output_comment("[Logged by the Python HdrHistogram]")
    log.output_log_format_version()
    log.output_base_time(1_700_000_000_000)
    log.output_legend()
    for interval in range(3):
        for tag in (None, "B"):
            h = HdrHistogram(1, 3_600_000_000_000, 3)
            for _ in range(200):
                h.record_value(int(random.lognormvariate(10 if tag else 9, 0.5)))
            start = 5_000 * interval
            h.set_start_time_stamp(start)
            h.set_end_time_stamp(start + 5_000)
            out.write(f"Tag={tag}," if tag else "")
            log.output_interval_histogram(h, max_value_unit_ratio=1.0)
PY

for file in *.json; do
  sed -E -i \
    -e 's/("nodename": )"[^"]*"/\1"host"/' \
    -e 's/("release": )"[^"]*"/\1"6.18.0"/' \
    -e 's/("version": )"#[^"]*(PREEMPT[A-Z_]*)[^"]*"/\1"#1 SMP \2"/' "$file"
done
mkdir -p "$fixtures"
cp ./*.json python.hlog "$fixtures/"
ls -l "$fixtures"
