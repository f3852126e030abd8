#!/usr/bin/env bash
# Examples that check themselves must keep working, because users copy them.
set -euo pipefail
cd "$(dirname "$0")/../.."
for example in echo watchdog spsc_threads; do
  cargo run --package busypoll --example "$example" --locked
done
