#!/usr/bin/env bash
# Prometheus must scrape two real monitors and compute the same quantiles as their files.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/common.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_packages prometheus python3
cargo build --locked
python3 scripts/ci/interop/prometheus.py "$work" "$PWD/target/debug/osjitter"
