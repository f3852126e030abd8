#!/usr/bin/env bash
# The HTML page must work in a real browser, at each width and size, in light and dark.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Argument: a directory in which to keep the screenshots [default: they are removed].
. scripts/ci/common.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_packages chromium fonts-dejavu-core
make_python "$work/venv" playwright
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
