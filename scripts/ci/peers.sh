#!/usr/bin/env bash
# Programs that measure us next to other crates must build and run, and their arithmetic must hold.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 scripts/precise-oracle.py --test
cd scripts/peers
cargo check --workspace --locked
cargo run --package peers-clock --locked -- --seconds 1 --reads 10000 >/dev/null
