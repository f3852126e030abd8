#!/usr/bin/env bash
# Runs the default suite, including the examples of the documentation, with the command of the README.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/readme-commands.sh
tests=$(readme_line "cargo test ")
echo "$tests"
bash -c "$tests"
