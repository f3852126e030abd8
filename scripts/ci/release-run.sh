#!/usr/bin/env bash
# The run of the README must measure and write valid files whose ticks add up.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/common.sh
. scripts/ci/readme-commands.sh
run=$(readme_line "cargo run --release -- run ")
work=$(mktemp -d)
: >"$work/messages"
# The command writes into a new directory in results/, which it names and which is removed.
new_directory() { sed -n 's|^report: \(results/.*\)/report\.json$|\1|p' "$work/messages"; }
trap 'directory=$(new_directory); rm -rf "$work" ${directory:+"$directory"}' EXIT

make_python "$work/venv" jsonschema
echo "$run"
{ bash -c "$run" 2>&1 >&3 | tee "$work/messages" >&2; } 3>&1
"$work/venv/bin/python" scripts/ci/interop/run_files.py "$run" "$(new_directory)"
