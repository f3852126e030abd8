#!/usr/bin/env bash
# Prints the path of a compiler that sets `--cfg CFG` in our own crates alone, for RUSTC_WORKSPACE_WRAPPER. RUSTFLAGS would
# set it everywhere, so that every other crate is built once more, and the standard library where that is built at all.
#   RUSTC_WORKSPACE_WRAPPER=$(bash scripts/ci/cfg-wrapper.sh loom) cargo test ...
set -euo pipefail
directory=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../../target}")
mkdir -p "$directory"
wrapper=$directory/rustc-with-$1
printf '#!/bin/sh\nexec "$@" --cfg %s\n' "$1" >"$wrapper"
chmod +x "$wrapper"
echo "$wrapper"
