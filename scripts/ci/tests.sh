#!/usr/bin/env bash
# The README promises this command; it includes the documentation's examples.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo test --workspace --locked
