#!/usr/bin/env bash
# Platforms without a native timer use tokio's timer, and the suite must pass with it.
set -euo pipefail
cd "$(dirname "$0")/../.."
RUSTC_WORKSPACE_WRAPPER=$(bash scripts/ci/cfg-wrapper.sh osinterval_force_fallback) \
  cargo test --package osinterval --all-features --locked
