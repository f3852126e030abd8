#!/usr/bin/env bash
# Our crates must pass the tests of the crates that they replace or resemble, except for listed differences.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Arguments: suites [default: all], and --checkout PROJECT=PATH in place of a published package. PARITY_DIR names a directory that
# keeps the built tests; OSJITTER names a program that is already built.
. scripts/ci/common.sh
install_packages python3
command -v go >/dev/null || install_packages golang-go || echo "logs of HdrHistogram will not be read: go is not available"
if [ -z "${OSJITTER-}" ]; then
  cargo build --release --locked
  export OSJITTER=${CARGO_TARGET_DIR:-target}/release/osjitter
fi
directory=${PARITY_DIR-}
if [ -z "$directory" ]; then
  directory=$(mktemp -d)
  trap 'rm -rf "$directory"' EXIT
fi
CARGO_TARGET_DIR=$directory/target python3 -Bu scripts/ci/parity/run.py "$directory" "$@"
