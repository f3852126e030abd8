#!/usr/bin/env bash
# Prints the path of a compiler that sets `--cfg CFG` only in the crates of this workspace, for RUSTC_WORKSPACE_WRAPPER.
# RUSTFLAGS would set it for every crate, so that all dependencies, and possibly the standard library, are built once more.
#   RUSTC_WORKSPACE_WRAPPER=$(bash scripts/ci/cfg-wrapper.sh loom) cargo test ...
set -euo pipefail
directory=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../../target}")
mkdir -p "$directory"
wrapper=$directory/rustc-with-$1
printf '#!/bin/sh\nexec "$@" --cfg %s\n' "$1" >"$wrapper"
chmod +x "$wrapper"
echo "$wrapper"
