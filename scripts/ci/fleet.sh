#!/usr/bin/env bash
# The SQL, manifests, rules and dashboard of deploy/ must work in the engines and programs that they are for.
set -euo pipefail
cd "$(dirname "$0")/../.."
# DuckDB and DataFusion query 200 synthetic hosts; promtool, Grafana's models, Kubernetes' schemas and systemd read deploy/.
# With `clickhouse`: chDB queries the hosts as well, which needs 600 MB on disk.
. scripts/ci/common.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_packages prometheus systemd
make_python "$work/venv" duckdb datafusion pyarrow kubernetes-validate grafana-foundation-sdk ${1:+chdb}
cargo build --locked
mkdir "$work/fleet"
"$work/venv/bin/python" scripts/ci/interop/fleet.py "$work/fleet" "$PWD/target/debug/osjitter" ${1:+"$1"}
"$work/venv/bin/python" scripts/ci/interop/deploy.py "$PWD/target/debug/osjitter"
