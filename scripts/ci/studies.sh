#!/usr/bin/env bash
# The programs of studies, including those that measure other crates, must build and run, and their arithmetic must be correct.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 scripts/studies/precise-oracle.py --test
cd scripts/studies
cargo check --workspace --locked
cargo test --package peers-runtimes --locked
cargo run --package peers-clock --locked -- --seconds 1 --reads 10000 >/dev/null
