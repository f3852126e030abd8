#!/usr/bin/env bash
# Files of a Debian system are no results: each must be refused at once, with one clear message and no wrong format.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Arguments: number of files and seed [default: 300 1]. OSJITTER names a program that is already built.
. scripts/ci/common.sh
install_packages python3
osjitter=${OSJITTER-}
if [ -z "$osjitter" ]; then
  cargo build --release --locked
  osjitter=target/release/osjitter
fi
python3 scripts/ci/interop/foreign_files.py "$osjitter" "${1:-300}" "${2:-1}"
