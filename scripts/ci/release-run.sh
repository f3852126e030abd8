#!/usr/bin/env bash
# The run of the README must measure and write valid files whose ticks add up.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/common.sh
. scripts/ci/readme-commands.sh
run=$(readme_line "cargo run --release -- run ")
work=$(mktemp -d)
# The command writes into a new directory in results/, which is removed.
list_results() { find results -mindepth 1 -maxdepth 1 | sort; }
list_results >"$work/earlier-results"
new_results() { comm -13 "$work/earlier-results" <(list_results); }
trap 'new_results | xargs --no-run-if-empty rm -r; rm -rf "$work"' EXIT

make_python "$work/venv" jsonschema
echo "$run"
bash -c "$run"
"$work/venv/bin/python" scripts/ci/interop/run_files.py "$run" "$(new_results)"
