#!/usr/bin/env bash
# Runs the protocols between threads under every schedule.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Arguments: the crates [default: busypoll osinterval osjitter-tach tickmeter].
[ $# -gt 0 ] || set -- busypoll osinterval osjitter-tach tickmeter
export RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$PWD/target/loom
for crate in "$@"; do
  features=()
  # With this cfg, tokio lacks most of its modules.
  [ "$crate" != osinterval ] || features=(--no-default-features --features blocking)
  cargo test --package "$crate" "${features[@]}" --lib --release --locked
done
