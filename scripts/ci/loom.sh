#!/usr/bin/env bash
# Runs the protocols between threads under every schedule.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Arguments: the crates [default: busypoll tickmeter].
[ $# -gt 0 ] || set -- busypoll tickmeter
export RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$PWD/target/loom
for crate in "$@"; do
  cargo test --package "$crate" --lib --release --locked
done
