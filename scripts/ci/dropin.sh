#!/usr/bin/env bash
# Published packages must pass as many of their own tests with osinterval's timers as with tokio's, except for listed differences.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Arguments: packages of parity/dropin.toml [default: all]. DROPIN_DIR names a directory that keeps the built tests.
. scripts/ci/common.sh
install_packages python3
directory=${DROPIN_DIR-}
if [ -z "$directory" ]; then
  directory=$(mktemp -d)
  trap 'rm -rf "$directory"' EXIT
fi
CARGO_TARGET_DIR=$directory/target python3 -Bu scripts/ci/parity/dropin.py "$directory" "$@"
