#!/usr/bin/env bash
# Everything at once for hours: `run`, `gate`, `monitor`, `top` and meters side by side under load, and what they hold and count.
#
#   scripts/soak.sh HOURS [NAME]     writes target/soak.json, or results/NAME/soak.json where a name is given
set -euo pipefail
cd "$(dirname "$0")/.."
hours=${1:?usage: scripts/soak.sh HOURS [NAME]}
out=target/soak.json
if [ -n "${2-}" ]; then
  mkdir -p "results/$2"
  out=results/$2/soak.json
fi
cargo build --release --locked --bin osjitter --example gated-loop
cargo build --release --locked --package tickmeter --all-features --example service
python3 scripts/soak.py "$hours" "$out"
[ -z "${2-}" ] || python3 scripts/soak_results.py "$2"
