#!/usr/bin/env bash
# Holds osjitter.bins/1 and deploy/ against the engines and programs that they are for: DuckDB and DataFusion ask 200 synthetic
# hosts, promtool, Grafana's models, Kubernetes' schemas and systemd read what deploys it. On Debian as root; installs what it
# needs, unless FLEET_PYTHON names a Python that has it. Arguments: the osjitter to use; `clickhouse`, to ask chDB too, which is
# 600 MB on disk.
set -euo pipefail
cd "$(dirname "$0")/../.."
osjitter=$(realpath "${1:-target/debug/osjitter}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

missing=()
for package in prometheus python3 python3-venv systemd; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"
fi
python=${FLEET_PYTHON:-$work/venv/bin/python}
if [ -z "${FLEET_PYTHON:-}" ]; then
  python3 -m venv "$work/venv"
  "$python" -m pip install -q --disable-pip-version-check duckdb datafusion pyarrow kubernetes-validate grafana-foundation-sdk \
    ${2:+chdb}
fi
mkdir "$work/fleet"
"$python" scripts/interop/fleet.py "$work/fleet" "$osjitter" ${2:+"$2"}
"$python" scripts/interop/deploy.py "$osjitter"
