#!/usr/bin/env bash
# Runs the complete simulations and tables, of which the default suite runs a part.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Optimized, because the simulations run thousands of gates.
CARGO_PROFILE_DEV_OPT_LEVEL=1 cargo test --workspace --locked -- --ignored nightly::
