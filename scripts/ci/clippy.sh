#!/usr/bin/env bash
# Warnings are defects, on every target and with every feature.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
