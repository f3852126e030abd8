#!/usr/bin/env bash
# Code behind features is compiled and tested by no other step.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo test --locked --all-features \
  --package busypoll --package tickmeter --package osjitter-tach --package idletimeout
