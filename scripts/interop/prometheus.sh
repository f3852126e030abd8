#!/usr/bin/env bash
# Debian's Prometheus scrapes two real monitors, and its quantiles are those of their files. On Debian as root; installs what it
# needs. Argument: the osjitter to use.
set -euo pipefail
cd "$(dirname "$0")/../.."
osjitter=$(realpath "${1:-target/debug/osjitter}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

missing=()
for package in prometheus python3; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"
fi
python3 scripts/interop/prometheus.py "$work" "$osjitter"
