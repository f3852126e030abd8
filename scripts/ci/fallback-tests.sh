#!/usr/bin/env bash
# Platforms without a native timer use tokio's timer, and those without 64-bit atomics use locks; the suites must pass with both.
set -euo pipefail
cd "$(dirname "$0")/../.."
RUSTC_WORKSPACE_WRAPPER=$(bash scripts/ci/cfg-wrapper.sh osinterval_force_fallback) \
  cargo test --package osinterval --all-features --locked
RUSTC_WORKSPACE_WRAPPER=$(bash scripts/ci/cfg-wrapper.sh tach_locked_words) \
  cargo test --package osjitter-tach --all-features --locked
