#!/usr/bin/env bash
# Compiles and tests the code behind features, which no other step does.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo test --locked --all-features \
  --package busypoll --package tickmeter --package osjitter-tach --package idletimeout
cargo test --locked --package osinterval --features serde --test serde
